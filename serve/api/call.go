package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"mm-abi.org/mm/internal/fsx"
)

// writeTime is the time for a client to take a piece of an answer.
const writeTime = 60 * time.Second

// Call is a request of a client.
type Call struct {
	W   http.ResponseWriter
	R   *http.Request
	ID  string
	Key string // the name of its key

	server *Server
	any    bool // the type of the body is not checked
	begun  time.Time
	status int // written; 0: nothing yet
	span   *traced
}

// Server returns the server that was called.
func (c *Call) Server() *Server { return c.server }

// problem converts an error to one that can be written.
func (c *Call) problem(err error) *Error { return problem(c.R.Context(), err, true, false) }

// Read reads the JSON body of the request into v. Unknown fields are ignored.
func (c *Call) Read(v any) error {
	data, err := c.body()
	if err != nil {
		return err
	}
	return Decode(data, v)
}

// body reads the body, which is JSON by its type unless the route takes any: a form of a web
// page cannot send that type.
func (c *Call) body() ([]byte, error) {
	kind, params, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if charset := params["charset"]; (err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8")) && !c.any {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Kind: InvalidRequest, Message: "Content-Type: got " + short(c.R.Header.Get("Content-Type")) + ", want application/json"}
	}
	if coding := c.R.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Kind: InvalidRequest, Message: "Content-Encoding: got " + short(coding) + ", want none"}
	}
	limit := c.server.opt.Body
	data, err := io.ReadAll(http.MaxBytesReader(c.W, c.R.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Kind: InvalidRequest, Code: "body_too_large", Message: "the body exceeds " + fsx.FormatSize(limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.W.Header().Set("Connection", "close")
		return nil, &Error{Status: http.StatusRequestTimeout, Kind: InvalidRequest, Code: "body_timeout", Message: "the body did not arrive within " + c.server.opt.BodyTime.String()}
	case err != nil:
		return nil, &Error{Status: http.StatusBadRequest, Kind: InvalidRequest, Message: "reading the body: " + err.Error()}
	}
	endless(c.W) // the client may now wait for as long as the answer takes
	return data, nil
}

// Decode parses a JSON object. The error names the field.
func Decode(data []byte, v any) error {
	if !utf8.Valid(data) {
		return Invalid("", "the body is not UTF-8")
	}
	if text := bytes.TrimSpace(data); len(text) == 0 || text[0] != '{' {
		return Invalid("", "the body: want a JSON object")
	}
	if !json.Valid(data) {
		return malformed(data)
	}
	err := Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var wrong *json.UnmarshalTypeError
	var typed *Error
	switch {
	case errors.As(err, &typed):
		return typed
	case errors.As(err, &wrong):
		field := promoted(v, wrong.Field)
		return Invalid(field, "%s: got %s, want %s", fieldName(field), wrong.Value, kindName(wrong))
	}
	return Invalid("", "malformed JSON: %v", err)
}

// malformed returns the error of a text that is not one JSON value.
func malformed(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var v json.RawMessage
	switch err := dec.Decode(&v); {
	case err == nil:
		return Invalid("", "the body has data after the JSON value")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Invalid("", "malformed JSON: the value is incomplete")
	default:
		return Invalid("", "malformed JSON: %v", err)
	}
}

// promoted returns a path without the name of an embedded struct, which JSON does not have.
func promoted(v any, field string) string {
	first, rest, _ := strings.Cut(field, ".")
	if t := reflect.TypeOf(v).Elem(); t.Kind() == reflect.Struct {
		if f, ok := t.FieldByName(first); ok && f.Anonymous {
			return rest
		}
	}
	return field
}

// Content parses the content of a message: a text, which part converts, an array of parts,
// or null.
func Content[T any](data []byte, part func(text string) T) (parts []T, err error) {
	switch {
	case bytes.Equal(data, []byte("null")):
		return nil, nil
	case bytes.HasPrefix(data, []byte(`"`)):
		var text string
		err = json.Unmarshal(data, &text)
		return []T{part(text)}, err
	case bytes.HasPrefix(data, []byte("[")):
		err = Unmarshal(data, &parts)
		return parts, err
	}
	return nil, Invalid("messages", "content: want a string or an array of parts")
}

func fieldName(field string) string {
	if field == "" {
		return "the body"
	}
	return field
}

// kindName returns the JSON type that a field wants.
func kindName(e *json.UnmarshalTypeError) string {
	switch name := strings.TrimLeft(e.Type.String(), "*"); {
	case strings.HasPrefix(name, "[]"):
		return "an array"
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		return "an integer"
	case strings.HasPrefix(name, "float"):
		return "a number"
	case name == "string":
		return "a string"
	case name == "bool":
		return "true or false"
	}
	return "an object"
}

// Reply writes a JSON value with status 200.
func (c *Call) Reply(v any) error { return c.ReplyStatus(http.StatusOK, v) }

// ReplyStatus writes a JSON value with a status.
func (c *Call) ReplyStatus(status int, v any) error {
	c.status = status
	return writeJSON(c.W, status, v)
}

// ReplyText writes a text.
func (c *Call) ReplyText(status int, text string) error {
	return c.Write(status, "text/plain; charset=utf-8", []byte(text))
}

// Redirect sends the client to another path of the server.
func (c *Call) Redirect(path string) error {
	c.W.Header().Set("Location", path)
	return c.ReplyText(http.StatusFound, path)
}

// Write writes data of a media type.
func (c *Call) Write(status int, mediaType string, data []byte) error {
	c.status = status
	c.W.Header().Set("Content-Type", mediaType)
	patient(c.W)
	c.W.WriteHeader(status)
	_, err := c.W.Write(data)
	return err
}

// writeJSON writes a value without escapes for HTML.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := Encode(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	patient(w)
	w.WriteHeader(status)
	_, err = w.Write(append(data, '\n'))
	return err
}

// Encode returns the JSON text of a value without escapes for HTML.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
