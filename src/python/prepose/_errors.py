"""Errors by kind. Each of them is a `PreposeError`; messages are those of the command line."""


class PreposeError(Exception):
    """Anything that prepose refuses or fails at."""


class OptionError(PreposeError, ValueError):
    """An option, prompt or request that makes no sense, or does not fit the checkpoint."""


class CheckpointError(PreposeError):
    """A checkpoint, or another file of weights, that cannot be used."""


class DeviceError(PreposeError):
    """A device that is not there, or cannot compute in the requested type."""


class OutOfMemoryError(PreposeError, MemoryError):
    """Too little memory; the message says what helps."""


class PictureError(PreposeError):
    """A picture that cannot be read, or something that is not a picture."""


class CheckError(PreposeError):
    """A detector or a rule that cannot say anything about the input."""


class RunError(PreposeError):
    """A run, or a set of prompts, that cannot be read."""


class JudgeError(PreposeError):
    """A judge that cannot be asked."""


class EngineError(PreposeError):
    """Any other error that stops pictures from being made."""


class CommandError(PreposeError):
    """A command of the command line that ended with an error; `code` is its exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
