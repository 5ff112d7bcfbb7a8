//! Forms with files, as `images/edits` takes them (RFC 7578).

/// A form in the making.
#[derive(Clone, Debug, Default)]
pub struct Form {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    name: String,
    /// A file's name and type.
    file: Option<(String, &'static str)>,
    bytes: Vec<u8>,
}

impl Form {
    /// Adds a field.
    #[must_use]
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.parts.push(Part {
            name: name.into(),
            file: None,
            bytes: value.as_bytes().to_vec(),
        });
        self
    }

    /// Adds a file. `name` and `file` are ours: plain words.
    #[must_use]
    pub fn file(mut self, name: &str, file: &str, kind: &'static str, bytes: &[u8]) -> Self {
        self.parts.push(Part {
            name: name.into(),
            file: Some((file.into(), kind)),
            bytes: bytes.to_vec(),
        });
        self
    }

    /// The `Content-Type` and the bytes. The boundary is one that is in none of the parts, and the same for the same form.
    pub fn encode(&self) -> (String, Vec<u8>) {
        let mut number = 0u32;
        let mut boundary = String::from("prepose-0");
        while self
            .parts
            .iter()
            .any(|part| contains(&part.bytes, boundary.as_bytes()))
        {
            number += 1;
            boundary = format!("prepose-{number}");
        }
        let mut body = Vec::new();
        for Part { name, file, bytes } in &self.parts {
            let mut head =
                format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"");
            if let Some((file, kind)) = file {
                head += &format!("; filename=\"{file}\"\r\nContent-Type: {kind}");
            }
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(b"\r\n\r\n");
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        (format!("multipart/form-data; boundary={boundary}"), body)
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_holds_the_boundary() {
        let form = Form::default().text("n", "prepose-0").file(
            "image",
            "image.png",
            "image/png",
            b"\x89PNG prepose-1",
        );
        let (kind, body) = form.encode();
        assert_eq!(kind, "multipart/form-data; boundary=prepose-2");
        let text = String::from_utf8_lossy(&body);
        assert!(text.starts_with(
            "--prepose-2\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\nprepose-0\r\n"
        ));
        assert!(
            text.contains(
                "name=\"image\"; filename=\"image.png\"\r\nContent-Type: image/png\r\n\r\n"
            )
        );
        assert!(text.ends_with("\r\n--prepose-2--\r\n"));
    }
}
