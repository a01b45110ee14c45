//! Signals: the first interrupt ends the turn, the second one exits immediately. After a signal that ends the program,
//! nothing delays the exit for longer than [`END_TIMEOUT`].

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use agent_protocol::control::{Interrupt, SessionControl};

const END_TIMEOUT: Duration = Duration::from_millis(900);

pub(super) async fn run_with_signals(
    work: impl Future<Output = u8>,
    control: &SessionControl,
    survives_hangup: bool,
) -> u8 {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else {
        // Without handlers a signal has its default effect.
        return work.await;
    };
    tokio::pin!(work);
    let mut hung_up = false;
    // The time and the exit code.
    let mut end: Option<(Instant, u8)> = None;
    loop {
        let deadline = end.map_or_else(Instant::now, |(deadline, _)| deadline);
        tokio::select! {
            code = &mut work => {
                // By the shell's convention, 128 + SIGHUP.
                return if hung_up { 129 } else { code };
            }
            // Dropping the work ends every process that it started.
            () = sleep_until(deadline), if end.is_some() => {
                return end.map_or(1, |(_, code)| code);
            }
            _ = interrupt.recv() => {
                if control.interrupt_cause().is_some() {
                    return 130;
                }
                // In the chat it ends the turn only.
                if !control.can_ask_approval() {
                    end = Some((Instant::now() + END_TIMEOUT, 130));
                }
                control.interrupt(Interrupt::User);
            }
            _ = terminate.recv() => {
                end.get_or_insert((Instant::now() + END_TIMEOUT, 143));
                control.interrupt(Interrupt::Terminate);
            }
            _ = hangup.recv(), if !survives_hangup => {
                hung_up = true;
                end.get_or_insert((Instant::now() + END_TIMEOUT, 129));
                control.interrupt(Interrupt::Terminate);
            }
        }
    }
}
