package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// Each limit admits what reaches it and refuses what exceeds it.
func TestLimits(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	check := func(name string, fits, exceeds error) {
		t.Helper()
		if fits != nil {
			t.Errorf("%s: what fits is refused: %v", name, fits)
		}
		if exceeds == nil {
			t.Errorf("%s: what exceeds it is accepted", name)
		}
	}
	_, fits := ParseRef("hf://me/" + a(maxName))
	_, exceeds := ParseRef("hf://me/" + a(maxName+1))
	check("maxName", fits, exceeds)
	check("maxPath", checkPath(a(maxPath)), checkPath(a(maxPath+1)))

	id, files, pages, answer, hops := a(40), 0, 0, 0, 0
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/revision/"):
			if n, _ := strconv.Atoi(r.URL.Query().Get("hop")); n < hops {
				http.Redirect(w, r, fmt.Sprintf("%s?hop=%d", r.URL.Path, n+1), http.StatusFound)
				return
			}
			fmt.Fprintf(w, `{"sha":%q}`, id)
		case strings.Contains(r.URL.Path, "/tree/"):
			n, _ := strconv.Atoi(r.URL.Query().Get("page"))
			if n+1 < pages {
				w.Header().Set("Link", fmt.Sprintf(`<%s%s?page=%d>; rel="next"`, srv.URL, r.URL.Path, n+1))
			}
			var list []string
			for i := range files {
				list = append(list, fmt.Sprintf(`{"type":"file","path":"%d","size":1,"oid":"%s"}`, i, id))
			}
			text := "[" + strings.Join(list, ",") + "]"
			_, _ = io.WriteString(w, text+strings.Repeat(" ", max(0, answer-len(text))))
		}
	}))
	defer srv.Close()
	c, err := New(Options{Endpoint: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	tree := func() error {
		_, err := c.Tree(t.Context(), Ref{Repository: "me/small"})
		return err
	}
	files, pages = maxFiles, 1
	fits = tree()
	files++
	check("maxFiles", fits, tree())
	files, pages = 1, maxPages
	fits = tree()
	pages++
	check("maxPages", fits, tree())
	pages, answer = 1, maxAnswer
	fits = tree()
	answer++
	check("maxAnswer", fits, tree())
	answer, hops = 0, maxRedirects
	fits = tree()
	hops++
	check("maxRedirects", fits, tree())

	file := func(name string, n int) File {
		data := bytes.Repeat([]byte("x"), n)
		sum := sha256.Sum256(data)
		return File{Path: name, Size: int64(n), SHA256: hex.EncodeToString(sum[:]), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
	}
	push := func(list ...File) error {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			var out []string
			for _, f := range list {
				out = append(out, fmt.Sprintf(`{"path":%q,"uploadMode":"regular"}`, f.Path))
			}
			fmt.Fprintf(w, `{"files":[%s]}`, strings.Join(out, ","))
		}))
		defer s.Close()
		c, err := New(Options{Endpoint: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Push(t.Context(), Ref{Repository: "me/small"}, list, PushOptions{})
		return err
	}
	check("maxInline", push(file("a", maxInline)), push(file("a", maxInline+1)))
	var many []File
	for i := range 4 * maxCommit / (5 * maxInline) { // base64 adds a third
		many = append(many, file(strconv.Itoa(i), maxInline-1000))
	}
	fits = push(many[:len(many)-1]...)
	check("maxCommit", fits, push(append(many, many[0])...))

	parts := &action{Href: srv.URL, Header: map[string]string{}}
	for i := range maxParts + 1 {
		parts.Header[fmt.Sprintf("%05d", i+1)] = srv.URL + "/put"
	}
	check("maxParts", c.sendParts(t.Context(), file("a", maxParts), 1, parts), c.sendParts(t.Context(), file("a", maxParts+1), 1, parts))
}
