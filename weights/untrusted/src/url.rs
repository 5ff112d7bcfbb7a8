//! Addresses without what is secret in them.

/// `text` with the credentials cut out of every address in it: the user and password before a host,
/// and all that follows a `?` or `#`, where keys and signatures stand.
pub fn redact(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let ends =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>' | '`');
        let length = after.find(ends).unwrap_or(after.len());
        let (address, after) = after.split_at(length);
        push_redacted(address, &mut shown);
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// [`redact`] for a text that is one address as a whole, with or without `https://` before it.
pub fn redact_address(address: &str) -> String {
    let mut shown = String::with_capacity(address.len());
    let rest = match address.split_once("://") {
        Some((scheme, rest)) => {
            // What stands before could hold a secret too if it is no scheme.
            let scheme = scheme.rsplit(['@', ':']).next().unwrap_or_default();
            shown.push_str(scheme);
            shown.push_str("://");
            rest
        }
        None => address,
    };
    push_redacted(rest, &mut shown);
    shown
}

/// What follows `://`.
fn push_redacted(address: &str, shown: &mut String) {
    let end = address.find(['?', '#']).unwrap_or(address.len());
    let (place, query) = address.split_at(end);
    let authority = place.split('/').next().unwrap_or_default();
    // A password may hold a slash, a question mark or a number sign that should have been escaped:
    // then what looks like the host has a colon and no port.
    let broken = authority.split_once(':').is_some_and(|(_, port)| {
        !authority.contains('@') && !authority.starts_with('[') && port.parse::<u16>().is_err()
    });
    let host = match (broken, address.rfind('@'), authority.rfind('@')) {
        (true, Some(at), _) => {
            shown.push_str("***@");
            let host = &address[at + 1..];
            &host[..host.find(['?', '#']).unwrap_or(host.len())]
        }
        (false, _, Some(at)) => {
            shown.push_str("***@");
            &place[at + 1..]
        }
        _ => place,
    };
    shown.push_str(host);
    if !query.is_empty() {
        shown.push_str("?***");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_cut_out() {
        for (given, shown) in [
            ("https://hub.example/a/b@c", "https://hub.example/a/b@c"),
            ("http://me:SECRET@host:8/v1", "http://***@host:8/v1"),
            ("http://me:SEC/RET@host/v1", "http://***@host/v1"),
            ("http://me:SEC?RET@host/v1", "http://***@host/v1?***"),
            ("s3://me:SECRET@bucket/x", "s3://***@bucket/x"),
            ("http://host/v1?key=SECRET", "http://host/v1?***"),
            ("http://host/v1#SECRET", "http://host/v1?***"),
            ("http://[::1]:80/v1", "http://[::1]:80/v1"),
            ("me:SECRET@host/v1", "***@host/v1"),
            ("localhost:8080/v1", "localhost:8080/v1"),
        ] {
            assert_eq!(redact_address(given), shown);
        }
        assert_eq!(
            redact("no answer from \"http://a:SECRET@b/?k=SECRET\" or ftp://c@d: refused"),
            "no answer from \"http://***@b/?***\" or ftp://***@d: refused"
        );
        assert_eq!(redact("no address: a@b"), "no address: a@b");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        #[test]
        fn no_password_survives(user in "[a-z]{0,4}", secret in "[S/?#]{0,3}SECRET[/?#@]{0,3}", path in "[a-z/]{0,8}") {
            let address = format!("https://{user}:{secret}@host.example/{path}");
            prop_assert!(!redact_address(&address).contains("SECRET"), "{}", redact_address(&address));
            prop_assert!(!redact(&address).contains("SECRET"), "{}", redact(&address));
        }

        #[test]
        fn any_text_will_do(text in any::<String>()) {
            redact(&text);
            redact_address(&text);
        }
    }
}
