//! What is answered to a request that cannot be served, in the words of the interface that was used.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;

/// What is wrong with what was wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// In words.
    pub message: String,
    /// In which field, as `request.steps`; none if in no single one.
    pub param: Option<&'static str>,
    /// Whether it names a model that is not there.
    pub missing: bool,
}

impl Refusal {
    /// Something is wrong in a field.
    pub fn new(param: impl Into<Option<&'static str>>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            param: param.into(),
            missing: false,
        }
    }
}

/// Why a request is not served.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The status.
    pub status: StatusCode,
    /// In words.
    pub message: String,
    /// In which field.
    pub param: Option<String>,
    /// For programs.
    pub code: Option<&'static str>,
    /// Seconds to wait before asking again.
    pub retry_after: Option<u64>,
    /// In whose form it is said.
    pub form: Form,
}

/// Whose errors a problem looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// OpenAI's, which the native interface has as well.
    #[default]
    OpenAi,
    /// AUTOMATIC1111's.
    WebUi,
}

impl Problem {
    /// A problem with that status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
            code: None,
            retry_after: None,
            form: Form::default(),
        }
    }

    /// 400.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// With the field that is wrong.
    pub fn at(self, param: impl Into<String>) -> Self {
        Self {
            param: Some(param.into()),
            ..self
        }
    }

    /// With a code for programs.
    pub fn code(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    /// In AUTOMATIC1111's form.
    pub fn webui(self) -> Self {
        Self {
            form: Form::WebUi,
            ..self
        }
    }

    /// What OpenAI calls this kind.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 | 421 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_exceeded",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The body.
    pub fn body(&self) -> serde_json::Value {
        match self.form {
            Form::OpenAi => json!({"error": {
                "message": self.message, "type": self.kind(), "param": self.param, "code": self.code,
            }}),
            Form::WebUi => json!({
                "error": self.kind(), "detail": self.message, "body": "", "errors": self.message,
            }),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, code) = match refusal.missing {
            true => (StatusCode::NOT_FOUND, Some("model_not_found")),
            false => (StatusCode::BAD_REQUEST, None),
        };
        Self {
            param: refusal.param.map(str::to_owned),
            code,
            ..Self::new(status, refusal.message)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let mut answer = (self.status, self.body().to_string()).into_response();
        let headers = answer.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        answer
    }
}
