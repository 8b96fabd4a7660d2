//! A server that answers from another of its addresses. Such answers do not count as answers, but are counted per
//! second and are not reported as silence.

use crate::support::Folder;
use crate::support::engines::{engine_permit, watch_seconds};
use report::Run;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Listens at 127.0.0.1; every nth answer comes from 127.0.0.2.
struct Crooked {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Crooked {
    fn start(nth: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // The system may grant less.
        let _granted = socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20);
        let elsewhere = UdpSocket::bind("127.0.0.2:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (address, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&stop);
        let serve = move || {
            let (mut bytes, mut number) = ([0; 512], 0);
            while !is_over.load(Ordering::Relaxed) {
                let Ok((count, client)) = socket.recv_from(&mut bytes) else { continue };
                bytes[2] |= 0x80;
                let from = if number % nth == 0 { &elsewhere } else { &socket };
                from.send_to(&bytes[..count], client).unwrap();
                number += 1;
            }
        };
        Self { address, stop, thread: Some(std::thread::spawn(serve)) }
    }
}

impl Drop for Crooked {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has already printed its message.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns the run, the output, and whether a stall moved queries to another second.
fn load(server: &Crooked, folder: &Folder, more: &[&str]) -> (Run, String, bool) {
    let _permit = engine_permit();
    let run = folder.path().join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--server", &server.address.to_string()]);
    command.args(["--rate", "500", "--duration", "3s", "--timeout", "5s", "--name", "q{n}.example"]);
    let watch = watch_seconds();
    let output = command.args(["--force", "--out"]).arg(&run).args(more).output().unwrap();
    let has_stalled = watch.stall("the counts per second").is_some();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // Exit code 1: a busy machine made the run invalid.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    (Run::read(&run).unwrap(), text.into_owned(), has_stalled)
}

#[test]
fn answers_from_another_address_are_not_reported_as_silence() {
    let (server, folder) = (Crooked::start(4), Folder::new("other-address"));
    for more in [&[][..], &["--sockets", "40", "--source", "127.0.0.3"]] {
        let (run, text, has_stalled) = load(&server, &folder, more);
        let total = run.figures();
        assert_eq!((total.sent, total.answered, total.other_address), (1_500, 1_125, 375), "{text}");
        // They are no answers (RFC 2181 4.1): their queries time out.
        assert_eq!((total.timed_out, total.stray, total.mismatched, total.late), (375, 0, 0, 0), "{text}");
        assert!(text.contains("375 from another address"), "{text}");
        let reason = format!("{} was queried, 127.0.0.2:", server.address);
        assert!(text.contains(&reason), "{text}");
        for row in run.sending().filter(|_| !has_stalled) {
            assert!((115..=135).contains(&row.other_address), "{}: {}", row.start_seconds, row.other_address);
        }
    }
}

#[test]
fn a_server_that_answers_only_from_other_addresses_is_not_reported_as_dead() {
    let (server, folder) = (Crooked::start(1), Folder::new("only-elsewhere"));
    let (run, text, _) = load(&server, &folder, &[]);
    assert_eq!((run.figures().answered, run.figures().other_address), (0, 1_500), "{text}");
    // A busy machine can add another reason on a separate line.
    let (_, why) = text.split_once("\nINVALID ").expect("it is not valid");
    assert!(why.contains("no answers from the queried address; 1500 from other addresses"), "{text}");
}
