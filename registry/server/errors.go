package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/cas"
)

// apiError is an error with its answer (distribution-spec, Error Codes).
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func fault(status int, code, format string, args ...any) error {
	return &apiError{status, code, fmt.Sprintf(format, args...)}
}

// clip truncates client input to 100 bytes for messages.
func clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

// translate maps errors of the store to API errors. Other errors are internal,
// and their text, which may hold paths, is not sent.
func translate(err error) *apiError {
	var e *apiError
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, errdef.ErrInvalidDigest):
		return &apiError{http.StatusBadRequest, "DIGEST_INVALID", "the digest is none"}
	case errors.Is(err, errdef.ErrInvalidReference):
		return &apiError{http.StatusBadRequest, "NAME_INVALID", "the name or tag is none"}
	case errors.Is(err, errdef.ErrSizeExceedsLimit):
		return &apiError{http.StatusRequestEntityTooLarge, "SIZE_INVALID", "too large"}
	case errors.Is(err, cas.ErrReadOnly):
		return &apiError{http.StatusMethodNotAllowed, "UNSUPPORTED", "the registry is read-only"}
	case errors.Is(err, errdef.ErrNotFound):
		return &apiError{http.StatusNotFound, "NAME_UNKNOWN", "not here"}
	case diskFull(err):
		return &apiError{http.StatusInsufficientStorage, "DENIED", "the disk is full"}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled):
		return &apiError{http.StatusBadRequest, "BLOB_UPLOAD_INVALID", "the body broke off"}
	}
	return &apiError{http.StatusInternalServerError, "UNKNOWN", "the registry failed"}
}

// diskFull reports whether the disk or the user's share of it is.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, quotaExceeded)
}

// writeError answers with err in the form of the specification.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	e := translate(err)
	type item struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	body, _ := json.Marshal(map[string][]item{"errors": {{e.code, e.message}}})
	h := w.Header()
	h.Set("Content-Type", "application/json")
	for _, key := range []string{"Content-Length", "Docker-Content-Digest", "ETag", "Accept-Ranges"} {
		h.Del(key)
	}
	w.WriteHeader(e.status)
	if r.Method != http.MethodHead {
		w.Write(body)
	}
}
