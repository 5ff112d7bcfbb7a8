//! The client against a server that fails in every way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chat::{Chat, ChatRequest, Dialect, Finish, Message, Role, read_answer};
use crate::stub::{Asked, Nobody, Reply, Stub};
use crate::{Ask, Client, Key, RemoteError, Retry, Settings, Timeouts, Turn};

const SECRET: &str = "sk-SECRET-0123";

fn settings() -> Settings {
    Settings {
        retry: Retry {
            attempts: 3,
            first: Duration::from_millis(1),
            ..Retry::default()
        },
        ..Settings::default()
    }
}

fn client(stub: &Stub) -> Client {
    let key = Key::new(SECRET, "MY_KEY").unwrap();
    Client::new(&stub.address, Some(key), settings()).unwrap()
}

fn serve(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Stub {
    Stub::start(answer).unwrap()
}

fn ask(stub: &Stub) -> Result<(Value, crate::Answer), RemoteError> {
    client(stub).json(
        &Ask::json("do", &json!({"a": 1}))
            .of("an oracle")
            .once("job-7"),
    )
}

/// Asks, and makes sure that the error has no secret in it.
fn fail(stub: &Stub) -> RemoteError {
    let error = ask(stub).unwrap_err();
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains("SECRET"), "{text}");
    }
    error
}

#[test]
fn what_passes_is_waited_for() {
    let stub = serve(|asked| match asked.before {
        0 => Reply::busy(1),
        1 => Reply::error(503, "loading", "loading"),
        _ => Reply::Json(200, json!({"done": true})),
    });
    let (json, answer) = ask(&stub).unwrap();
    assert_eq!((json, answer.attempts), (json!({"done": true}), 3));
    for asked in stub.asked() {
        assert_eq!(
            asked.header("authorization"),
            Some(&*format!("Bearer {SECRET}"))
        );
        // By the same name each time.
        assert_eq!(asked.header("idempotency-key"), Some("job-7"));
        assert_eq!(asked.json(), json!({"a": 1}));
    }
    // A connection that breaks, before and in the middle of the answer.
    let stub = serve(|asked| match asked.before {
        0 => Reply::Close,
        1 => Reply::Cut(
            120,
            Box::new(Reply::Json(200, json!({"long": "x".repeat(1000)}))),
        ),
        _ => Reply::Json(200, json!(3)),
    });
    assert_eq!(ask(&stub).unwrap().0, 3);
    // Until it is enough.
    let stub = serve(|_| Reply::error(500, "broken", "broken"));
    let error = fail(&stub);
    assert_eq!(
        error.to_string(),
        format!("{}/do answered 500 after 3 tries: broken", stub.address)
    );
    assert!(error.is_passing() && stub.count() == 3);
}

#[test]
fn what_does_not_pass_is_not_asked_again() {
    for (reply, wanted) in [
        (
            Reply::error(400, "bad", "no such size"),
            "answered 400: no such size",
        ),
        (
            Reply::error(404, "model_not_found", "no model m"),
            "answered 404: no model m",
        ),
        (
            Reply::error(429, "insufficient_quota", "pay first"),
            "not go on without payment (insufficient_quota): pay",
        ),
        (
            Reply::error(400, "moderation_blocked", "no"),
            "refuses this under its content rules: no",
        ),
        (
            Reply::error(401, "k", &format!("wrong key {SECRET}!")),
            "wrong key ***!; the one in MY_KEY was not accepted",
        ),
        (
            Reply::Headers(
                429,
                vec![("retry-after", "4000".into())],
                json!({"error": "x"}),
            ),
            "asks to wait for 4000 s (429)",
        ),
        (
            Reply::Headers(
                500,
                vec![("x-should-retry", "false".into())],
                json!({"error": "x"}),
            ),
            "answered 500: x",
        ),
        (
            Reply::error(
                500,
                "500",
                "output does not match the expected peg-native format",
            ),
            "had an answer but",
        ),
        (
            Reply::Bytes(200, "text/html", b"<h1>Welcome</h1>".to_vec()),
            "does not answer as an oracle does: text/html with \"Welcome\"; is the address right?",
        ),
        (
            Reply::Headers(
                302,
                vec![("location", "http://me:SECRET@elsewhere/x?SECRET".into())],
                json!({}),
            ),
            "redirects to http://***@elsewhere/x?***; if",
        ),
    ] {
        let stub = serve(move |_| reply.clone());
        let error = fail(&stub).to_string();
        assert!(error.contains(wanted), "{error}");
        assert_eq!(stub.count(), 1, "{error}");
    }
}

/// A server that has begun to answer has sent its status already: what breaks down then is told in the answer.
#[test]
fn errors_with_status_200_count_as_what_they_say() {
    for broken in [
        json!({"error": {"code": 502, "message": "down"}}),
        json!({"error": {"message": "down"}, "choices": [], "data": null}),
        json!({"choices": [{"message": {"content": "ye"}, "error": {"code": 429, "message": "m"}}]}),
        json!({"choices": [{"message": {"content": "ye"}, "finish_reason": "error"}]}),
    ] {
        let stub = serve(move |asked| match asked.before {
            0 => Reply::Json(200, broken.clone()),
            _ => Reply::chat("yes"),
        });
        let chat = Chat::new(client(&stub), "m", Dialect::Plain);
        let request = ChatRequest::new(vec![Message::text(Role::User, "x")]);
        let answer = chat.ask(&request).unwrap();
        assert_eq!((answer.text.as_str(), answer.attempts), ("yes", 2));
    }
    for (said, wanted, tries) in [
        (
            json!({"error": {"code": 502, "message": "down"}}),
            "answered 502 after 3 tries: down",
            3,
        ),
        (
            json!({"error": {"code": 17, "message": "down"}}),
            "answered 500 after 3 tries: down",
            3,
        ),
        (
            json!({"choices": [{"finish_reason": "error"}]}),
            "answered 502 after 3 tries: the model broke off its answer",
            3,
        ),
        (
            json!({"error": {"code": 400, "message": "bad"}}),
            "answered 400: bad",
            1,
        ),
        (
            json!({"error": {"code": 402, "message": "pay first"}}),
            "not go on without payment (402): pay first",
            1,
        ),
        (
            json!({"error": {"code": "moderation_blocked", "message": "no"}}),
            "refuses this under its content rules: no",
            1,
        ),
    ] {
        let stub = serve(move |_| Reply::Json(200, said.clone()));
        let error = fail(&stub);
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(
            (stub.count(), error.is_passing()),
            (tries, tries > 1),
            "{error}"
        );
    }
    // What only looks like one, and words alone, which stand for no status.
    for said in [
        json!({"error": null, "a": 1}),
        json!({"error": {"code": 502}, "data": [1]}),
        json!({"error": "Unexpected endpoint or method."}),
    ] {
        let wanted = said.clone();
        let stub = serve(move |_| Reply::Json(200, said.clone()));
        assert_eq!(ask(&stub).unwrap().0, wanted);
    }
}

/// Once no wait at all, once a time that is long past: neither makes a server that is busy be asked again at once.
#[test]
fn no_server_shortens_the_usual_wait() {
    for after in ["0", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        let stub = serve(move |_| {
            let header = ("retry-after", after.to_owned());
            Reply::Headers(429, vec![header], json!({"error": "busy"}))
        });
        let slow = Settings {
            retry: Retry {
                first: Duration::from_secs(10),
                ..Retry::default()
            },
            ..Settings::default()
        };
        let client = Client::new(&stub.address, None, slow).unwrap();
        let turn = client.json_turn(&Ask::get("x"), 1).unwrap();
        let Turn::Later(_, wait) = turn else {
            panic!("{turn:?}")
        };
        // After the second try that failed: between a half and the whole of 2 × 10 s.
        assert!((10.0..=20.0).contains(&wait.as_secs_f64()), "{wait:?}");
    }
}

#[test]
fn silence_and_flood_have_an_end() {
    let stub = serve(|_| Reply::Hang);
    let quick = Settings {
        timeouts: Timeouts {
            answer: Duration::from_millis(50),
            ..Timeouts::default()
        },
        ..settings()
    };
    let client = Client::new(&stub.address, None, quick).unwrap();
    let error = client.ask(&Ask::get("x")).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("said nothing for 0.05 s after 3 tries"),
        "{error}"
    );

    let stub = serve(|_| Reply::Bytes(200, "image/png", vec![0; 2000]));
    let small = Settings {
        longest: 1000,
        ..settings()
    };
    let client = Client::new(&stub.address, None, small).unwrap();
    let error = client.ask(&Ask::get("x")).unwrap_err();
    assert!(
        matches!(error, RemoteError::TooLong { limit: 1000, .. }),
        "{error}"
    );

    // Nobody there.
    let nobody = Nobody::new().unwrap();
    let client = Client::new(&nobody.address, None, settings()).unwrap();
    let error = client.ask(&Ask::get("x")).unwrap_err();
    assert!(
        matches!(error, RemoteError::NoAnswer { attempts: 3, .. }),
        "{error:?}"
    );
}

#[test]
fn a_request_to_stop_ends_the_wait() {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let stub = serve(move |_| {
        flag.store(true, Ordering::Relaxed);
        Reply::busy(100_000)
    });
    let patient = Settings { stop, ..settings() };
    let client = Client::new(&stub.address, None, patient).unwrap();
    assert!(matches!(
        client.ask(&Ask::get("x")),
        Err(RemoteError::Stopped)
    ));
    assert_eq!(stub.count(), 1);
}

#[test]
fn keys_stay_with_their_server() {
    let other = serve(|_| Reply::Bytes(200, "image/png", vec![1, 2, 3]));
    let target = other.address.clone();
    let stub = serve(move |asked| match asked.path.as_str() {
        "/do" => Reply::Json(200, json!({"url": format!("{target}/a?signature=SECRET")})),
        _ => Reply::Bytes(200, "image/png", vec![4]),
    });
    let client = client(&stub);
    let (json, _) = client.json(&Ask::get("do")).unwrap();
    let file = client.download(json["url"].as_str().unwrap()).unwrap();
    assert_eq!(file.body, [1, 2, 3]);
    assert_eq!(other.asked()[0].header("authorization"), None);
    assert_eq!(other.asked()[0].path, "/a?signature=SECRET");
    assert_eq!(
        client
            .download(&format!("{}/b", stub.address))
            .unwrap()
            .body,
        [4]
    );
    assert!(stub.asked()[1].header("authorization").is_some());
    assert!(!format!("{client:?}").contains("SECRET"));
    // A name and a password in the address, and a key in a header of its own.
    let with_name = stub.address.replace("http://", "http://me:SECRET@");
    let client = Client::new(&with_name, None, settings()).unwrap();
    client.ask(&Ask::get("do")).unwrap();
    assert_eq!(
        stub.asked()[2].header("authorization"),
        Some("Basic bWU6U0VDUkVU")
    );
    let azure = Settings {
        key_header: Some("api-key".into()),
        ..settings()
    };
    let key = Key::new(SECRET, "MY_KEY").unwrap();
    let client = Client::new(&stub.address, Some(key), azure).unwrap();
    client.ask(&Ask::get("do")).unwrap();
    let asked = &stub.asked()[3];
    assert_eq!(
        (asked.header("authorization"), asked.header("api-key")),
        (None, Some(SECRET))
    );
}

#[test]
fn a_model_is_asked_about_a_picture() {
    let stub = serve(|asked| match asked.before {
        0 => Reply::chat("<think>hm, yes?</think>\n yes "),
        1 => Reply::Json(
            200,
            json!({"choices": [{"message": {"content": null}, "finish_reason": "length"}]}),
        ),
        2 => Reply::Json(
            200,
            json!({"choices": [{"message": {"content": null, "refusal": "I will not"}}]}),
        ),
        3 => Reply::Json(200, json!({"choices": []})),
        _ => Reply::Json(
            200,
            json!({"model": "m2", "system_fingerprint": "f", "choices": [
            {"message": {"content": [{"type": "text", "text": "a"}], "reasoning": "r"}, "finish_reason": "stop",
             "logprobs": {"content": []}}]}),
        ),
    });
    let base = format!("{}/v1", stub.address);
    let server = Client::new(&base, None, settings()).unwrap();
    let chat = Chat::new(server, "m", Dialect::Plain);
    let question = vec![
        Message::text(Role::System, "Be brief."),
        Message::about([vec![0x89, b'P', b'N', b'G']], "Is it?"),
    ];
    let mut request = ChatRequest::new(question);
    request.seed = Some(5);
    let answer = chat.ask(&request).unwrap();
    assert_eq!(
        (answer.text.as_str(), answer.thoughts.as_deref()),
        ("yes", Some("hm, yes?"))
    );
    assert_eq!(
        (answer.usage.prompt, answer.usage.completion, answer.finish),
        (7, 3, Finish::Stop)
    );
    let asked = &stub.asked()[0];
    assert_eq!(asked.path, "/v1/chat/completions");
    let url = "data:image/png;base64,iVBORw==";
    assert_eq!(
        asked.json(),
        json!({"model": "m", "temperature": 0.0, "max_tokens": 1024, "seed": 5, "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "Is it?"}]}]})
    );
    let cut = chat.ask(&request).unwrap();
    assert_eq!((cut.text.as_str(), cut.finish), ("", Finish::Length));
    assert!(
        matches!(chat.ask(&request), Err(RemoteError::Refused { message, .. }) if message == "I will not")
    );
    let error = chat.ask(&request).unwrap_err().to_string();
    assert!(
        error.contains("does not answer as a server of language models does: no choices"),
        "{error}"
    );
    let last = chat.ask(&request).unwrap();
    assert_eq!(
        (last.text.as_str(), last.thoughts.as_deref()),
        ("a", Some("r"))
    );
    assert!(last.logprobs.is_some() && last.model.as_deref() == Some("m2"));
}

/// Templates of models that always think begin the thoughts, so that only their end is in the answer.
#[test]
fn thoughts_may_have_begun_in_the_template() {
    for (content, thoughts, text, finish) in [
        (
            "hm, yes?\n</think>\n\nYes",
            Some("hm, yes?"),
            "Yes",
            Finish::Stop,
        ),
        ("</think>Yes", Some(""), "Yes", Finish::Stop),
        ("<think>hm</think>Yes", Some("hm"), "Yes", Finish::Stop),
        ("<think> hm", Some("hm"), "", Finish::Length),
        ("Yes", None, "Yes", Finish::Stop),
    ] {
        let json = json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]});
        let answer = read_answer(&json, || "http://h".into()).unwrap();
        let read = (answer.thoughts.as_deref(), answer.text.as_str());
        assert_eq!(
            (read, answer.finish),
            ((thoughts, text), finish),
            "{content}"
        );
    }
}

#[test]
fn servers_have_many_words_for_an_end() {
    let read = |word: &str| {
        let json = json!({"choices": [{"message": {"content": "yes"}, "finish_reason": word}]});
        read_answer(&json, || "http://h".into())
    };
    for (word, finish) in [
        ("stop", Finish::Stop),
        ("eos", Finish::Stop),
        ("eos_token", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("end_turn", Finish::Stop),
        ("STOP", Finish::Stop),
        ("length", Finish::Length),
        ("max_tokens", Finish::Length),
        ("MAX_TOKENS", Finish::Length),
        ("model_length", Finish::Length),
        ("Tool_calls", Finish::Other("Tool_calls".into())),
    ] {
        assert_eq!(read(word).unwrap().finish, finish, "{word}");
    }
    for word in ["content_filter", "SAFETY"] {
        let answer = read(word);
        assert!(matches!(answer, Err(RemoteError::Refused { .. })), "{word}");
    }
}

#[test]
fn dialects_differ_where_servers_do() {
    let mut request = ChatRequest::new(vec![Message::text(Role::User, "x")]);
    request.thinking = Some(false);
    request.logprobs = Some(5);
    request.schema = Some(("v".into(), json!({"type": "object"})));
    request.extra.insert("top_k".into(), json!(1));
    let plain = request.body("m", Dialect::Plain);
    assert_eq!(
        (
            &plain["max_tokens"],
            &plain["top_logprobs"],
            &plain["top_k"]
        ),
        (&json!(1024), &json!(5), &json!(1))
    );
    assert_eq!(
        plain["response_format"]["json_schema"]["schema"],
        json!({"type": "object"})
    );
    let openai = request.body("m", Dialect::OpenAi);
    assert_eq!(openai["max_completion_tokens"], 1024);
    assert!(openai.get("temperature").is_none() && openai.get("max_tokens").is_none());
    let llama = request.body("m", Dialect::Llama);
    assert_eq!(llama["chat_template_kwargs"]["enable_thinking"], false);
    assert_eq!(
        request.body("m", Dialect::Ollama)["reasoning_effort"],
        "none"
    );
}
