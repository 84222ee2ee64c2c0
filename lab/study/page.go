package study

import (
	_ "embed"
	"encoding/json"
	"net/http"

	"mm-abi.org/mm/internal/httpx"
)

//go:embed page.html
var page []byte

//go:embed page.js
var script []byte

// Handler serves the state of a run, read anew for each request: a page on / and JSON on
// /status.json. It answers only requests for a loopback host, so that no other site's
// page reads it through the browser.
func Handler(read func() (Status, error)) http.Handler {
	mux := http.NewServeMux()
	file := func(kind string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Write(body)
		}
	}
	mux.HandleFunc("GET /{$}", file("text/html; charset=utf-8", page))
	mux.HandleFunc("GET /page.js", file("text/javascript; charset=utf-8", script))
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) {
		s, err := read()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(s)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpx.IsLoopback(r.Host) {
			http.Error(w, "unknown host", http.StatusForbidden)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
		mux.ServeHTTP(w, r)
	})
}
