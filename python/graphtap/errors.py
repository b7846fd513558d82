"""One exception for each graphtap::Code, all below Error."""
import builtins as _b

__all__ = ["CorruptError", "DamageWarning", "DeviceError", "DeviceLostError", "Error", "ExhaustedError",
           "InvalidArgumentError", "IoError", "NotFoundError", "TimeoutError", "UnavailableError",
           "UnsupportedError"]


class Error(Exception):
    """What was wrong, where, and what would be right."""

    def __str__(self):  # KeyError would show the message in quotes
        return Exception.__str__(self)


class InvalidArgumentError(Error, ValueError): pass
class NotFoundError(Error, KeyError): pass
class ExhaustedError(Error, MemoryError): pass
class TimeoutError(Error, _b.TimeoutError): pass
class UnavailableError(Error, OSError): pass
class UnsupportedError(Error): pass
class CorruptError(Error, ValueError): pass
class IoError(Error, OSError): pass
class DeviceError(Error, RuntimeError): pass
class DeviceLostError(Error, RuntimeError): pass


class DamageWarning(UserWarning):
    """Something stored cannot be read, or a writer did not end properly; said once a store object."""
