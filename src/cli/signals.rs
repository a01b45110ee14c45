//! Signals: the first interrupt ends the turn, the second one exits immediately.

use tokio::signal::unix::{SignalKind, signal};

use agent_protocol::control::{Interrupt, SessionControl};

pub(super) async fn run_with_signals(
    work: impl Future<Output = u8>,
    control: &SessionControl,
) -> u8 {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else {
        // Without handlers a signal has its default effect.
        return work.await;
    };
    tokio::pin!(work);
    let mut hung_up = false;
    loop {
        tokio::select! {
            code = &mut work => {
                // By the shell's convention, 128 + SIGHUP.
                return if hung_up { 129 } else { code };
            }
            _ = interrupt.recv() => {
                if control.interrupt_cause().is_some() {
                    // Dropping the work ends every process that it started.
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
