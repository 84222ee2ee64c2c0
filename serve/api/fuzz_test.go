package api_test

import (
	"net/http/httptest"
	"testing"
)

// Bodies of any bytes are answered or refused; none is a server error.
func FuzzRequest(f *testing.F) {
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/api/chat", "/api/generate", "/api/show", "/tokenize", "/detokenize"}
	for _, q := range transcripts {
		for i, path := range paths {
			if path == q[1] {
				f.Add(i, []byte(q[2]))
			}
		}
	}
	for _, text := range []string{"", "null", "[]", "{", `{"messages":null}`, `{"messages":[null]}`, `{"input":[null]}`, `{"tools":[null]}`, `{"stop":[null]}`, "\xff", `{"messages":{}}`, `{"model":null}`} {
		f.Add(0, []byte(text))
		f.Add(2, []byte(text))
		f.Add(3, []byte(text))
		f.Add(4, []byte(text))
	}
	s, m := world(f, nil)
	close(m.release)
	for i := range paths {
		f.Add(i, []byte("{}"))
	}
	f.Fuzz(func(t *testing.T, path int, body []byte) {
		r := request("POST", paths[uint(path)%uint(len(paths))], string(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= 500 && !scriptedFault(body) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// scriptedFault reports a body that asks the scripted model for an error.
func scriptedFault(body []byte) bool {
	for i := range body {
		if len(body)-i >= 5 && string(body[i:i+5]) == "break" {
			return true
		}
	}
	return false
}
