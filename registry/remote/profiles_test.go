package remote

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// quirks are the peculiarities of a scripted registry. The zero value has none,
// and no referrers API.
type quirks struct {
	strict bool // manifests are refused while a blob of theirs is missing

	span_       string // Range of upload answers: "", still, chunk, length, zero, none
	statusLies  bool   // the answer to GET of an upload has that Range, too
	noStatus    int    // GET of an upload is answered by this
	patchStatus int    // PATCH is answered by this
	mostPatch   int64  // bytes of a PATCH with Content-Range
	mostStatus  int    // answer to more
	leastPatch  int64  // bytes of a PATCH, except the last
	tellLeast   bool   // in OCI-Chunk-Min-Length
	leastLate   bool   // only the chunk after a short one is refused
	mostBody    int64  // bytes of any request body; more is 413
	locations   string // of uploads: "", absolute, https, internal
	state       bool   // locations carry a state that must come back
	cookie      bool   // uploads are bound to a cookie
	lag         int    // how often something new is not found yet
	loseEvery   int    // answers of each method and kind that are lost
	busyEvery   int    // answers of each method and kind that are 429

	noHead       int    // HEAD is answered by this
	noLengths    bool   // answers have no Content-Length
	noDigests    bool   // answers have no Docker-Content-Digest
	manifestType string // Content-Type of manifests

	immutable         bool // a tag keeps its first manifest
	immutableStrictly bool // not even the same manifest may be put again

	referrersAPI    bool
	noSubjectHeader bool
	referrersStatus int    // of the API, without one
	referrersPage   string // HTML in place of the API

	page      int    // tags on a page of the listing
	lastPage  int    // status of the pages after the first
	linkHost  string // in the Link header
	tagsType  string // Content-Type of listings
	ghostTags []string
}

// open answers a POST.
func (s *scripted) open(w http.ResponseWriter, r *http.Request, id string) {
	if s.tellLeast {
		w.Header().Set("OCI-Chunk-Min-Length", fmt.Sprint(s.leastPatch))
	}
	if s.cookie {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/"})
	}
	w.Header().Set("Location", s.location(r, id))
	if s.span_ == "zero" {
		w.Header().Set("Range", "0-0")
	}
	w.WriteHeader(http.StatusAccepted)
}

// location is where an upload continues.
func (s *scripted) location(r *http.Request, id string) string {
	at := strings.TrimSuffix(r.URL.Path, "/")
	if r.Method == http.MethodPost {
		at += "/" + id
	}
	if s.state {
		s.opened++
		at += fmt.Sprintf("?_state=%d%%3D%%3D", s.opened)
	}
	switch s.locations {
	case "absolute":
		return "http://" + r.Host + at
	case "https":
		return "https://" + r.Host + at
	case "internal":
		return "http://registry.invalid:5000" + at
	}
	return at
}

// span is the Range of an upload that has so many bytes, after a request with
// body of them.
func (s *scripted) span(method string, have, body int) string {
	kind := s.span_
	if method == http.MethodGet && !s.statusLies {
		kind = ""
	}
	switch kind {
	case "still", "zero":
		return "0-0"
	case "chunk":
		return fmt.Sprintf("0-%d", max(body-1, 0))
	case "length":
		return fmt.Sprintf("0-%d", have)
	case "none":
		return ""
	}
	return fmt.Sprintf("0-%d", max(have-1, 0))
}

// patchable checks a PATCH to a session of so many bytes, and answers it if it
// is refused.
func (s *scripted) patchable(w http.ResponseWriter, r *http.Request, have int) bool {
	first, _, ranged := strings.Cut(r.Header.Get("Content-Range"), "-")
	status := 0
	switch {
	case s.noPatch:
		status = http.StatusMethodNotAllowed
	case s.patchStatus != 0:
		status = s.patchStatus
	case s.mostPatch > 0 && ranged && r.ContentLength > s.mostPatch:
		status = s.mostStatus
	case s.leastPatch > 0 && !s.leastLate && have == 0 && r.ContentLength < s.leastPatch,
		s.leastPatch > 0 && int64(have)%s.leastPatch != 0:
		status = http.StatusRequestedRangeNotSatisfiable
	case first != fmt.Sprint(have):
		status = http.StatusRequestedRangeNotSatisfiable
	}
	if status != 0 {
		w.WriteHeader(status)
	}
	return status == 0
}

// dress returns a writer that changes answers, having refused the requests
// that the registry does not accept.
func (s *scripted) dress(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if s.noHead != 0 && r.Method == http.MethodHead || s.mostBody > 0 && r.ContentLength > s.mostBody {
		status := http.StatusRequestEntityTooLarge
		if r.Method == http.MethodHead {
			status = s.noHead
		}
		w.WriteHeader(status)
		return &discarded{header: http.Header{}}
	}
	return &dressed{ResponseWriter: w, s: s, r: r}
}

// dressed changes the header of an answer.
type dressed struct {
	http.ResponseWriter
	s    *scripted
	r    *http.Request
	sent bool
}

func (d *dressed) WriteHeader(status int) {
	if d.sent {
		return
	}
	d.sent = true
	h := d.Header()
	if d.s.noLengths {
		h.Del("Content-Length")
		h.Set("Transfer-Encoding", "identity") // so that net/http adds no length
		if d.r.Method != http.MethodHead {
			h.Del("Transfer-Encoding")
		}
	}
	if d.s.noDigests {
		h.Del("Docker-Content-Digest")
	}
	if d.s.manifestType != "" && strings.Contains(d.r.URL.Path, "/manifests/") && status == http.StatusOK {
		h.Set("Content-Type", d.s.manifestType)
	}
	if h.Get("Range") == "" {
		h.Del("Range")
	}
	d.ResponseWriter.WriteHeader(status)
	if f, ok := d.ResponseWriter.(http.Flusher); ok && d.s.noLengths {
		f.Flush()
	}
}

func (d *dressed) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	return d.ResponseWriter.Write(p)
}

func (d *dressed) Flush() { d.ResponseWriter.(http.Flusher).Flush() }

// profile is a registry by the name of its peculiarity.
type profile struct {
	name   string
	about  string
	quirks quirks
}

// quirkChunk is the chunk of the tests over profiles.
const quirkChunk = 256 << 10

// profiles are the registries that every command passes.
func profiles() []profile {
	all := []profile{
		{"plain", "no peculiarity, no referrers API", quirks{}},
		{"modern", "the referrers API", quirks{referrersAPI: true}},
		{"ecr", "Range stands still, no GET of uploads, locations with state, tags keep their manifest", quirks{span_: "still", noStatus: 405, state: true, immutable: true, referrersAPI: true}},
		{"zot", "Range counts per chunk", quirks{span_: "chunk", referrersAPI: true}},
		{"range-zero", "Range is 0-0 from the POST on, in GET, too", quirks{span_: "zero", statusLies: true}},
		{"range-chunk-lies", "Range counts per chunk, in GET, too", quirks{span_: "chunk", statusLies: true}},
		{"range-length", "Range ends with the length", quirks{span_: "length", statusLies: true}},
		{"range-none", "no Range, no GET of uploads", quirks{span_: "none", noStatus: 404}},
		{"ghcr", "no large PATCH with Content-Range (416), referrers 404", quirks{mostPatch: quirkChunk / 2, mostStatus: 416}},
		{"ghcr-400", "no large PATCH with Content-Range (400)", quirks{mostPatch: quirkChunk / 2, mostStatus: 400}},
		{"harbor-old", "referrers 401", quirks{referrersStatus: 401}},
		{"nexus", "Link to an internal host over HTTP", quirks{page: 1, linkHost: "http://nexus.invalid:8081", referrersStatus: 404}},
		{"nexus-cut", "404 after the first page of tags", quirks{page: 1, lastPage: 404, referrersStatus: 404}},
		{"quay", "referrers without a subject header, absolute locations", quirks{referrersAPI: true, noSubjectHeader: true, locations: "absolute"}},
		{"acr", "locations with state, tags page by page", quirks{referrersAPI: true, state: true, page: 1}},
		{"immutable-tags", "a tag may be put once, no referrers API", quirks{immutable: true, immutableStrictly: true}},
		{"eventual", "new things are found at the third look", quirks{lag: 2, strict: true, referrersAPI: true}},
		{"eventual-tags", "new things are found at the third look, no referrers API", quirks{lag: 2, strict: true}},
		{"no-lengths", "no Content-Length", quirks{noLengths: true, referrersAPI: true}},
		{"no-digests", "no Docker-Content-Digest", quirks{noDigests: true, referrersAPI: true}},
		{"bare", "neither lengths nor digests nor HEAD", quirks{noLengths: true, noDigests: true, noHead: 405}},
		{"no-head", "HEAD 405", quirks{noHead: 405, referrersAPI: true}},
		{"no-head-501", "HEAD 501", quirks{noHead: 501}},
		{"small-chunks", "a proxy that takes no large bodies (413)", quirks{mostBody: quirkChunk, referrersAPI: true}},
		{"large-min-chunks", "OCI-Chunk-Min-Length above ours", quirks{leastPatch: 2 * quirkChunk, tellLeast: true, referrersAPI: true}},
		{"large-min-chunks-silent", "a minimum above ours that is not told", quirks{leastPatch: 2 * quirkChunk, referrersAPI: true}},
		{"large-min-chunks-late", "a minimum above ours, refused after the first chunk", quirks{leastPatch: 2 * quirkChunk, leastLate: true, referrersAPI: true}},
		{"cookies", "uploads are bound to a cookie", quirks{cookie: true, referrersAPI: true}},
		{"octet-stream", "manifests as application/octet-stream", quirks{manifestType: "application/octet-stream", referrersAPI: true}},
		{"text-plain", "manifests and listings as text/plain", quirks{manifestType: "text/plain; charset=utf-8", tagsType: "text/plain", referrersAPI: true}},
		{"lost-answers", "every third answer to a change is lost", quirks{loseEvery: 3, referrersAPI: true}},
		{"lost-answers-immutable", "the same where a tag may be put once", quirks{loseEvery: 3, immutable: true, immutableStrictly: true, referrersAPI: true}},
		{"busy", "every third answer is 429", quirks{busyEvery: 3, referrersAPI: true}},
		{"https-locations", "locations with another scheme", quirks{locations: "https", referrersAPI: true}},
		{"internal-locations", "locations at an internal host", quirks{locations: "internal", referrersAPI: true}},
		{"ghost-tags", "a listed tag without a manifest", quirks{ghostTags: []string{"9.9.9"}, referrersAPI: true}},
		{"referrers-html", "a page in place of the referrers API", quirks{referrersPage: "<html>sign in</html>"}},
	}
	for _, status := range []int{400, 403, 405, 429, 500, 501, 502, 503} {
		all = append(all, profile{fmt.Sprint("referrers-", status), "referrers answered by it", quirks{referrersStatus: status}})
	}
	for _, status := range []int{400, 404, 405, 411, 415, 500, 501} {
		all = append(all, profile{fmt.Sprint("patch-", status), "PATCH answered by it", quirks{patchStatus: status, referrersAPI: true}})
	}
	return all
}

// patience is how long a test over a profile may take.
const patience = 10 * time.Second
