//! A real browser without a window, driven through the `DevTools` protocol over two pipes.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Limit: how long the browser may take to answer.
const PATIENCE: Duration = Duration::from_mins(1);
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// Exceptions and error messages of the page.
    pub(crate) problems: Vec<String>,
    _home: tempfile::TempDir,
}

/// The browser that is installed, if there is one.
pub(crate) fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut files = NAMES.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
    files.find(|file| file.is_file())
}

impl Browser {
    /// Starts the browser.
    pub(crate) fn start(program: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        let [commands, answers] = ["commands", "answers"].map(|name| {
            let path = home.path().join(name);
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
            path
        });
        // The browser expects its pipes as descriptors 3 and 4. Each redirection waits for the other side.
        let line = "exec \"$1\" --headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars \
            --disable-dev-shm-usage --user-data-dir=\"$2\" --remote-debugging-pipe about:blank 3<\"$3\" 4>\"$4\"";
        let mut command = Command::new("bash");
        command.args(["-c", line, "bash"]).arg(program).arg(home.path().join("profile"));
        command.arg(&commands).arg(&answers).env("HOME", home.path());
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap();
        let to = File::options().write(true).open(&commands).unwrap();
        let from = BufReader::new(File::open(&answers).unwrap());
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for message in from.split(0) {
                let Ok(message) = message else { break };
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            to,
            from: receiver,
            session: None,
            last_id: 0,
            problems: Vec::new(),
            _home: home,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.call(domain, json!({}));
        }
        browser.size(1360, 900);
        browser
    }

    /// Sets the size of the page.
    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sends a command; returns its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method});
        message["params"] = params;
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let message = self.from.recv_timeout(PATIENCE).expect("an answer of the browser");
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.problems.push(params["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.problems.push(params["entry"].to_string());
            }
            Some("Page.javascriptDialogOpening") => self.problems.push(params.to_string()),
            _ => {}
        }
    }

    /// Opens a file and waits until its script has run. Returns how long that took.
    pub(crate) fn open(&mut self, file: &Path, fragment: &str) -> Duration {
        // A page that differs only in the fragment would not be loaded again.
        self.call("Page.navigate", json!({"url": "about:blank"}));
        let started = Instant::now();
        self.call("Page.navigate", json!({"url": format!("file://{}{fragment}", file.display())}));
        self.wait("document.documentElement?.dataset.ready !== undefined");
        // A frame was drawn, and a task ran after it: the page reacts.
        self.eval("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))");
        started.elapsed()
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        let exception = &result["exceptionDetails"];
        assert!(exception.is_null(), "{expression}: {exception}");
        result["result"]["value"].clone()
    }

    /// The value of an expression that is a string.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        let started = Instant::now();
        while self.eval(expression) != true {
            assert!(started.elapsed() < PATIENCE, "never: {expression}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Clicks with the mouse on the middle of the first element that an expression gives.
    pub(crate) fn click(&mut self, element: &str) {
        let place = self.eval(&format!(
            "(() => {{ const box = ({element}).getBoundingClientRect(); \
             return [box.left + Math.min(box.width, 200) / 2, box.top + box.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        }
        self.eval(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
    }

    /// Presses a key.
    pub(crate) fn key(&mut self, key: &str) {
        let mut down = json!({"type": "keyDown", "key": key});
        if key.len() == 1 {
            down["text"] = key.into();
        } else if key == "Enter" {
            down["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
        self.eval(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
    }

    /// A picture of what is visible, as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let data = picture["data"].as_str().unwrap_or_default();
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
