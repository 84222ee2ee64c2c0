package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"mm-abi.org/mm/core/chat/jinja"
	"mm-abi.org/mm/core/grammar/schema"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
)

// The kinds of errors, in the words of OpenAI's API.
const (
	InvalidRequest = "invalid_request_error"
	Authentication = "authentication_error"
	Permission     = "permission_error"
	RateLimit      = "rate_limit_error"
	Internal       = "server_error"
)

// Error is a refused request. Every wire format writes it in its own envelope.
type Error struct {
	Status  int
	Kind    string
	Message string
	Param   string // the field of the body; "": none
	Code    string // "": none

	Retry time.Duration // time after which to try again; 0: unknown
	Allow []string      // methods of the path, with status 405
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Invalid returns the error of a field of the body.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Kind: InvalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Unsupported returns the error of a field that the server does not support.
func Unsupported(param, format string, args ...any) *Error {
	e := Invalid(param, format, args...)
	e.Code = "unsupported"
	return e
}

// Absent returns the error of an endpoint that the served builds do not support.
func Absent(what string) *Error {
	return &Error{Status: http.StatusNotImplemented, Kind: InvalidRequest, Code: "not_implemented", Message: what + ": not supported by this server"}
}

var (
	errShutdown = &Error{Status: http.StatusServiceUnavailable, Kind: Internal, Code: "shutting_down", Message: "the server shuts down", Retry: time.Second}
	// errGone is the error of a client that disconnected; it is not written.
	errGone = &Error{Status: 499, Kind: InvalidRequest, Code: "client_closed_request", Message: "the client disconnected"}
)

// problem converts an error of a runner. Fed reports that the model has read the prompt: an
// error before is the request's, as far as its kind is unknown and foreign reports untrusted
// bytes or a schema in it.
func problem(ctx context.Context, err error, fed, foreign bool) *Error {
	var typed *Error
	var faults *schema.Error
	var gone *runtimes.Unavailable
	var raised *jinja.RaisedError
	switch {
	case errors.As(err, &typed):
		return typed
	case errors.Is(context.Cause(ctx), errShutdown):
		return errShutdown
	case ctx.Err() != nil:
		return errGone
	case errors.Is(err, runtimes.ErrFull):
		// In the words by which clients recognize it and shorten the conversation.
		e := Invalid("messages", "prompt is too long: this model's maximum context length is exceeded: %v", err)
		e.Code = "context_length_exceeded"
		return e
	case errors.Is(err, runner.ErrToken):
		return Invalid("prompt", "prompt: %v", err)
	case errors.As(err, &faults):
		return Invalid("response_format", "%v", faults)
	case errors.As(err, &gone):
		e := Unsupported("", "%v", gone)
		if gone.Hint != "" {
			e.Message += " (" + gone.Hint + ")"
		}
		return e
	case errors.As(err, &raised):
		return Invalid("messages", "%v", raised)
	case errors.Is(err, runtimes.ErrClosed):
		return errShutdown
	case errors.Is(err, runtimes.ErrTime):
		return &Error{Status: http.StatusServiceUnavailable, Kind: Internal, Code: "timeout", Message: err.Error()}
	case !fed && foreign:
		return Invalid("messages", "%v", err)
	}
	return &Error{Status: http.StatusInternalServerError, Kind: Internal, Message: err.Error()}
}
