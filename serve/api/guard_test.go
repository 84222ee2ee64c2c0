package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/serve/api"
)

// Foreign hosts and origins, unknown keys, wrong methods, types and paths are refused.
func TestRefused(t *testing.T) {
	key, err := api.ParseKeys("keys", "ann 0123456789abcdef\n")
	if err != nil {
		t.Fatal(err)
	}
	s, m := world(t, func(o *api.Options) {
		o.Keys, o.Origins, o.Hosts, o.Body = key, []string{"https://ide.example"}, []string{"mm.example"}, 1000
	})
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"good":            {func(*http.Request) {}, 200},
		"localhost":       {func(r *http.Request) { r.Host = "localhost:8080" }, 200},
		"IPv6":            {func(r *http.Request) { r.Host = "[::1]:8080" }, 200},
		"allowed host":    {func(r *http.Request) { r.Host = "mm.example:8080" }, 200},
		"rebound host":    {func(r *http.Request) { r.Host = "evil.example" }, 403},
		"suffix of host":  {func(r *http.Request) { r.Host = "localhost.evil.example" }, 403},
		"no host":         {func(r *http.Request) { r.Host = "" }, 403},
		"origin":          {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		"null origin":     {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"other port":      {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, 403},
		"own origin":      {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1") }, 200},
		"allowed origin":  {func(r *http.Request) { r.Header.Set("Origin", "https://ide.example") }, 200},
		"cross-site":      {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"same-site":       {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		"no key":          {func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"unknown key":     {func(r *http.Request) { r.Header.Set("Authorization", "Bearer 0123456789abcdeg") }, 401},
		"hash as key":     {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+digest("0123456789abcdef")) }, 401},
		"scheme":          {func(r *http.Request) { r.Header.Set("Authorization", "Basic 0123456789abcdef") }, 401},
		"key in a header": {func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("X-Api-Key", "0123456789abcdef") }, 200},
		"form":            {func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415},
		"text":            {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		"no type":         {func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
		"charset":         {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }, 200},
		"compressed":      {func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, 415},
	} {
		r := request("POST", "/v1/chat/completions", chatBody("hi", ""))
		r.Header.Set("Authorization", "Bearer 0123456789abcdef")
		c.change(r)
		if w := do(t, s, r); w.Code != c.want {
			t.Errorf("%s: got %d, want %d: %s", name, w.Code, c.want, w.Body)
		}
	}
	for size, want := range map[int]int{1000: 200, 1001: 413} {
		body := chatBody("hi", "")
		r := request("POST", "/v1/chat/completions", body+strings.Repeat(" ", size-len(body)))
		r.Header.Set("Authorization", "Bearer 0123456789abcdef")
		if w := do(t, s, r); w.Code != want {
			t.Errorf("%d bytes: got %d, want %d", size, w.Code, want)
		}
	}
	for path, want := range map[string]int{
		"/v1/nope": 404, "/v1/../metrics": 404, "//v1/models": 404, "/v1/models/../../metrics": 404, "/etc/passwd": 404, "/.env": 404, "/health": 200, "/ready": 200,
		"/openapi.json": 200, "/metrics": 401, "/v1/models": 401, "/api/tags": 401,
	} {
		if w := do(t, s, request("GET", path, "")); w.Code != want {
			t.Errorf("%s: got %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "TRACE", "OPTIONS", "PATCH"} {
		w := do(t, s, request(method, "/v1/chat/completions", ""))
		if w.Code != 405 || w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: got %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	_ = m
}

func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// A preflight is answered for an allowed origin only.
func TestPreflight(t *testing.T) {
	s, _ := world(t, func(o *api.Options) { o.Origins = []string{"https://ide.example"} })
	for origin, want := range map[string]int{"https://ide.example": 204, "https://evil.example": 403} {
		r := request("OPTIONS", "/v1/chat/completions", "")
		r.Header.Set("Origin", origin)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want || (want == 204) != (w.Header().Get("Access-Control-Allow-Origin") == origin) {
			t.Errorf("%s: got %d, %v", origin, w.Code, w.Header())
		}
	}
	for _, bad := range []string{"ide.example", "https://ide.example/", "*"} {
		if _, err := api.New(api.Options{Origins: []string{bad}}); err == nil {
			t.Errorf("origin %q: no error", bad)
		}
	}
}

// Keys have a line each, as text or as a hash.
func TestParseKeys(t *testing.T) {
	good, err := api.ParseKeys("keys", "# clients\n\nann 0123456789abcdef\nben sha256:"+digest("another key of ben")+"\n")
	if err != nil || len(good) != 2 || good[1].Name != "ben" || hex.EncodeToString(good[1].Hash[:]) != digest("another key of ben") {
		t.Fatalf("got %v, %v", good, err)
	}
	many := strings.Builder{}
	for range 1024 {
		many.WriteString(strings.Repeat("x", many.Len()%7+1) + digest(many.String())[:20] + " " + digest(many.String()) + "\n")
	}
	if got, err := api.ParseKeys("keys", many.String()); err != nil || len(got) != 1024 {
		t.Errorf("1024 keys: got %d, %v", len(got), err)
	}
	for text, want := range map[string]diag.Code{
		"ann":                 diag.KeyLine,
		"ann a b":             diag.KeyLine,
		"ann sha256:12":       diag.KeyLine,
		"ann 0123456789abcde": diag.KeyShort,
		"ann 0123456789abcdef\nann 1123456789abcdef": diag.KeyTwice,
		"ann 0123456789abcdef\nben 0123456789abcdef": diag.KeyTwice,
		"# none\n": diag.KeyNone,
		many.String() + "another " + digest("another"): diag.KeyMany,
	} {
		_, err := api.ParseKeys("keys", text)
		if err == nil || !strings.Contains(err.Error(), string(want)) {
			t.Errorf("%.60q: got %v, want %s", text, err, want)
		}
	}
}
