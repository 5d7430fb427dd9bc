//! Canonical JSON against CPython's, document by document; skipped, with a notice, without python3.

use leasehold_actors::contract::canonical;
use leasehold_actors::contract::json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};

const SCRIPT: &str = "
import json, sys
for line in sys.stdin.buffer:
    value = json.loads(line)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(',', ':'))
    sys.stdout.buffer.write(text.encode('utf-8') + b'\\n')
";

/// SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn number(&mut self) -> String {
        let bits = self.next();
        match bits % 6 {
            0 => loop {
                let float = f64::from_bits(self.next());
                if float.is_finite() {
                    return format!("{float:e}");
                }
            },
            // Times with a binary fraction: half of them lie between two shortest spellings.
            1 => format!(
                "{:?}",
                (self.next() % 4_000_000_000) as f64 + (bits >> 32) as f64 / 256.0 % 1.0
            ),
            2 => format!("{:e}", f64::powi(2.0, (bits >> 32) as i32 % 1074)),
            3 => format!("{}", self.next() as i64),
            4 => format!("-{}{}", self.next(), self.next()),
            _ => format!("{}.{}e{}", bits % 10, self.next(), (bits >> 40) as i32 % 300),
        }
    }

    fn text(&mut self) -> String {
        let letters = (0..self.next() % 6).map(|_| {
            let code = (self.next() % 0x3000) as u32;
            format!("\\u{code:04x}")
        });
        format!("\"{}\"", letters.collect::<String>())
    }
}

#[test]
fn canonical_json_equals_that_of_cpython() {
    let mut numbers = Numbers(1);
    let documents: Vec<String> = (0..50_000)
        .map(|place| {
            let (key, text) = (numbers.text(), numbers.text());
            format!(
                "{{\"k{place}\":{key},\"a\":[{},{}],{text}:{text}}}",
                numbers.number(),
                numbers.number()
            )
        })
        .filter(|document| Value::parse(document.as_bytes()).is_ok())
        .collect();
    assert!(documents.len() > 45_000);
    let python = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        eprintln!("skipped: python3 is not installed");
        return;
    };
    let mut input = python.stdin.take().expect("it is piped");
    let lines = documents.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = python.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("all was read");
    let printed = String::from_utf8(output.stdout).expect("text");
    let theirs: Vec<&str> = printed.split('\n').collect();
    assert_eq!(theirs.len(), documents.len() + 1);
    for (document, theirs) in documents.iter().zip(theirs) {
        let ours = canonical::print(&Value::parse(document.as_bytes()).expect("JSON"));
        assert_eq!(ours, theirs, "{document}");
    }
}
