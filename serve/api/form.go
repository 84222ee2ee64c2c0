package api

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

// maxFields bounds the fields of a form.
const maxFields = 64

// Form reads a body of multipart/form-data: its fields, and the contents of the file of
// a field. The body is within the limit of the server.
func (c *Call) Form(file string) (fields url.Values, data []byte, err error) {
	kind, params, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, nil, &Error{Status: http.StatusUnsupportedMediaType, Kind: InvalidRequest, Message: "Content-Type: got " + short(c.R.Header.Get("Content-Type")) + ", want multipart/form-data"}
	}
	any := c.any
	c.any = true // the type was checked
	body, err := c.body()
	c.any = any
	if err != nil {
		return nil, nil, err
	}
	fields, data, err = parseForm(body, params["boundary"], file)
	if err == nil && data == nil {
		err = Invalid(file, "%s: missing", file)
	}
	return fields, data, err
}

// parseForm parses the parts of a body.
func parseForm(body []byte, boundary, file string) (fields url.Values, data []byte, err error) {
	fields = url.Values{}
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		p, err := r.NextPart()
		if err == io.EOF {
			return fields, data, nil
		}
		if err != nil {
			return nil, nil, Invalid("", "malformed form: %v", err)
		}
		if n == maxFields {
			return nil, nil, Invalid("", "the form has more than %d fields", maxFields)
		}
		value, err := io.ReadAll(p)
		switch name := p.FormName(); {
		case err != nil:
			return nil, nil, Invalid("", "malformed form: %v", err)
		case name == file && data != nil:
			return nil, nil, Invalid(file, "%s: got two", file)
		case name == file:
			data = append([]byte{}, value...)
		default:
			name = strings.TrimSuffix(name, "[]")
			fields[name] = append(fields[name], string(value))
		}
	}
}
