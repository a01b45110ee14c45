//! Signals: the first interrupt ends the turn cleanly, the second ends the program at once.

use tokio::signal::unix::{SignalKind, signal};

use crate::protocol::control::{Control, Interrupt};

/// Runs the work; signals reach it through `control`.
pub(super) async fn guard(work: impl Future<Output = u8>, control: &Control) -> u8 {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else {
        // Without handlers a signal ends the program as it ends any other.
        return work.await;
    };
    tokio::pin!(work);
    let mut hung_up = false;
    loop {
        tokio::select! {
            code = &mut work => {
                // The exit code of the shell's own convention, 128 + SIGHUP.
                return if hung_up { 129 } else { code };
            }
            _ = interrupt.recv() => {
                if control.interrupted().is_some() {
                    // The work is dropped here, and with it every process that it started.
                    return 130;
                }
                control.interrupt(Interrupt::User);
            }
            _ = terminate.recv() => control.interrupt(Interrupt::Terminate),
            _ = hangup.recv() => {
                hung_up = true;
                control.interrupt(Interrupt::Terminate);
            }
        }
    }
}
