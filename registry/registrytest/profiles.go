package registrytest

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
)

// Quirks are the peculiarities of a registry. The zero value has none,
// and no referrers API.
type Quirks struct {
	Strict bool // manifests are refused while a blob of theirs is missing

	Span        string // Range of upload answers: "", still, chunk, length, zero, none
	StatusLies  bool   // the answer to GET of an upload has that Range, too
	NoStatus    int    // GET of an upload is answered by this
	PatchStatus int    // PATCH is answered by this
	MostPatch   int64  // bytes of a PATCH with Content-Range
	MostStatus  int    // answer to more
	LeastPatch  int64  // bytes of a PATCH, except the last
	TellLeast   bool   // in OCI-Chunk-Min-Length
	LeastLate   bool   // only the chunk after a short one is refused
	MostBody    int64  // bytes of any request body; more is 413
	Locations   string // of uploads: "", absolute, https, internal, relative, first (in the answer to POST alone)
	State       bool   // locations carry a state that must come back
	Cookie      bool   // uploads are bound to a cookie
	Lag         int    // how often something new is not found yet
	LoseEvery   int    // answers of each method and kind that are lost
	BusyEvery   int    // answers of each method and kind that are 429

	Redirect     bool   // blobs are at another host, which refuses logins
	Packed       bool   // manifests and listings are compressed
	Statuses     bool   // other statuses of success than those of the specification
	NoHead       int    // HEAD is answered by this
	NoLengths    bool   // answers have no Content-Length
	NoDigests    bool   // answers have no Docker-Content-Digest
	ManifestType string // Content-Type of manifests

	Immutable         bool // a tag keeps its first manifest
	ImmutableStrictly bool // not even the same manifest may be put again

	ReferrersAPI    bool
	NoSubjectHeader bool
	ReferrersStatus int    // of the API, without one
	ReferrersPage   string // HTML in place of the API

	Page      int    // tags on a page of the listing
	LastPage  int    // status of the pages after the first
	LinkHost  string // in the Link header
	TagsType  string // Content-Type of listings
	GhostTags []string
}

// open answers a POST.
func (s *Registry) open(w http.ResponseWriter, r *http.Request, id string) {
	if s.TellLeast {
		w.Header().Set("OCI-Chunk-Min-Length", fmt.Sprint(s.LeastPatch))
	}
	if s.Cookie {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/"})
	}
	w.Header().Set("Location", s.location(r, id))
	if s.Span == "zero" {
		w.Header().Set("Range", "0-0")
	}
	w.WriteHeader(http.StatusAccepted)
}

// location is where an upload continues.
func (s *Registry) location(r *http.Request, id string) string {
	at := strings.TrimSuffix(r.URL.Path, "/")
	if r.Method == http.MethodPost {
		at += "/" + id
	}
	if s.State {
		s.opened++
		at += fmt.Sprintf("?_state=%d%%3D%%3D", s.opened)
	}
	switch s.Locations {
	case "absolute":
		return "http://" + r.Host + at
	case "https":
		return "https://" + r.Host + at
	case "internal":
		return "http://registry.invalid:5000" + at
	case "relative":
		return at[strings.LastIndexByte(at, '/')+1:]
	case "first":
		if r.Method != http.MethodPost {
			return ""
		}
	}
	return at
}

// span is the Range of an upload that has so many bytes, after a request with
// body of them.
func (s *Registry) span(method string, have, body int) string {
	kind := s.Span
	if method == http.MethodGet && !s.StatusLies {
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
func (s *Registry) patchable(w http.ResponseWriter, r *http.Request, have int) bool {
	first, _, ranged := strings.Cut(r.Header.Get("Content-Range"), "-")
	status := 0
	switch {
	case s.NoPatch:
		status = http.StatusMethodNotAllowed
	case s.PatchStatus != 0:
		status = s.PatchStatus
	case s.MostPatch > 0 && ranged && r.ContentLength > s.MostPatch:
		status = s.MostStatus
	case s.LeastPatch > 0 && !s.LeastLate && have == 0 && r.ContentLength < s.LeastPatch,
		s.LeastPatch > 0 && int64(have)%s.LeastPatch != 0:
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
func (s *Registry) dress(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if s.NoHead != 0 && r.Method == http.MethodHead || s.MostBody > 0 && r.ContentLength > s.MostBody {
		status := http.StatusRequestEntityTooLarge
		if r.Method == http.MethodHead {
			status = s.NoHead
		}
		w.WriteHeader(status)
		return &discarded{header: http.Header{}}
	}
	if at := strings.LastIndexByte(r.URL.Path, '/'); s.Redirect && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path[:at], "/blobs") {
		return s.elsewhere(w, r, r.URL.Path[at:])
	}
	d := &dressed{ResponseWriter: w, s: s, r: r}
	if s.Packed && r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "/blobs/") && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		d.packed = gzip.NewWriter(w)
	}
	return d
}

// elsewhere redirects a request for a blob to the same server by another name, and
// returns the writer of the answer there.
func (s *Registry) elsewhere(w http.ResponseWriter, r *http.Request, blob string) http.ResponseWriter {
	status := http.StatusTemporaryRedirect
	if strings.HasPrefix(r.URL.Path, "/elsewhere/") {
		if r.Header.Get("Authorization") == "" {
			return w
		}
		status = http.StatusBadRequest
	}
	_, port, _ := strings.Cut(r.Host, ":")
	w.Header().Set("Location", "http://localhost:"+port+"/elsewhere/blobs"+blob+"?X-Amz-Signature=secret")
	w.WriteHeader(status)
	return &discarded{header: http.Header{}}
}

// dressed changes the header of an answer.
type dressed struct {
	http.ResponseWriter
	s    *Registry
	r    *http.Request
	sent bool

	packed *gzip.Writer // nil: as it is
}

// success maps a status of success to another that some registries send.
var success = map[int]int{http.StatusCreated: http.StatusOK, http.StatusNoContent: http.StatusOK}

func (d *dressed) WriteHeader(status int) {
	if d.sent {
		return
	}
	d.sent = true
	h := d.Header()
	if d.s.NoLengths {
		h.Del("Content-Length")
		h.Set("Transfer-Encoding", "identity") // so that net/http adds no length
		if d.r.Method != http.MethodHead {
			h.Del("Transfer-Encoding")
		}
	}
	if d.s.NoDigests {
		h.Del("Docker-Content-Digest")
	}
	if d.s.ManifestType != "" && strings.Contains(d.r.URL.Path, "/manifests/") && status == http.StatusOK {
		h.Set("Content-Type", d.s.ManifestType)
	}
	for _, name := range []string{"Range", "Location"} {
		if h.Get(name) == "" {
			h.Del(name)
		}
	}
	if other := success[status]; other != 0 && d.s.Statuses {
		status = other
	}
	if d.packed != nil {
		h.Del("Content-Length")
		h.Set("Content-Encoding", "gzip")
	}
	d.ResponseWriter.WriteHeader(status)
	if f, ok := d.ResponseWriter.(http.Flusher); ok && d.s.NoLengths {
		f.Flush()
	}
}

func (d *dressed) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	if d.packed != nil {
		defer d.packed.Flush()
		return d.packed.Write(p)
	}
	return d.ResponseWriter.Write(p)
}

// close ends a compressed answer.
func (d *dressed) close() {
	if d.packed != nil && d.sent {
		d.packed.Close()
	}
}

func (d *dressed) Flush() { d.ResponseWriter.(http.Flusher).Flush() }

// Profile is a registry by the name of its peculiarity.
type Profile struct {
	Name   string
	About  string
	Quirks Quirks
}

// Profiles returns the registries that every command passes, for a client that sends
// chunks of the given size.
func Profiles(chunk int64) []Profile {
	all := []Profile{
		{"plain", "no peculiarity, no referrers API", Quirks{}},
		{"modern", "the referrers API", Quirks{ReferrersAPI: true}},
		{"ecr", "Range does not advance, no GET of uploads, locations with state, tags keep their manifest", Quirks{Span: "still", NoStatus: 405, State: true, Immutable: true, ReferrersAPI: true}},
		{"zot", "Range counts per chunk", Quirks{Span: "chunk", ReferrersAPI: true}},
		{"range-zero", "Range is 0-0 from the POST on, in GET, too", Quirks{Span: "zero", StatusLies: true}},
		{"range-chunk-lies", "Range counts per chunk, in GET, too", Quirks{Span: "chunk", StatusLies: true}},
		{"range-length", "Range ends with the length", Quirks{Span: "length", StatusLies: true}},
		{"range-none", "no Range, no GET of uploads", Quirks{Span: "none", NoStatus: 404}},
		{"ghcr", "no large PATCH with Content-Range (416), referrers 404", Quirks{MostPatch: chunk / 2, MostStatus: 416}},
		{"ghcr-400", "no large PATCH with Content-Range (400)", Quirks{MostPatch: chunk / 2, MostStatus: 400}},
		{"harbor-old", "referrers 401", Quirks{ReferrersStatus: 401}},
		{"nexus", "Link to an internal host over HTTP", Quirks{Page: 1, LinkHost: "http://nexus.invalid:8081", ReferrersStatus: 404}},
		{"nexus-cut", "404 after the first page of tags", Quirks{Page: 1, LastPage: 404, ReferrersStatus: 404}},
		{"quay", "referrers without a subject header, absolute locations", Quirks{ReferrersAPI: true, NoSubjectHeader: true, Locations: "absolute"}},
		{"acr", "locations with state, tags page by page", Quirks{ReferrersAPI: true, State: true, Page: 1}},
		{"immutable-tags", "a tag may be put once, no referrers API", Quirks{Immutable: true, ImmutableStrictly: true}},
		{"eventual", "new things are found at the third look", Quirks{Lag: 2, Strict: true, ReferrersAPI: true}},
		{"eventual-tags", "new things are found at the third look, no referrers API", Quirks{Lag: 2, Strict: true}},
		{"no-lengths", "no Content-Length", Quirks{NoLengths: true, ReferrersAPI: true}},
		{"no-digests", "no Docker-Content-Digest", Quirks{NoDigests: true, ReferrersAPI: true}},
		{"bare", "neither lengths nor digests nor HEAD", Quirks{NoLengths: true, NoDigests: true, NoHead: 405}},
		{"no-head", "HEAD 405", Quirks{NoHead: 405, ReferrersAPI: true}},
		{"no-head-501", "HEAD 501", Quirks{NoHead: 501}},
		{"small-chunks", "a proxy that takes no large bodies (413)", Quirks{MostBody: chunk, ReferrersAPI: true}},
		{"large-min-chunks", "OCI-Chunk-Min-Length above ours", Quirks{LeastPatch: 2 * chunk, TellLeast: true, ReferrersAPI: true}},
		{"large-min-chunks-silent", "an unstated minimum above ours", Quirks{LeastPatch: 2 * chunk, ReferrersAPI: true}},
		{"large-min-chunks-late", "a minimum above ours, refused after the first chunk", Quirks{LeastPatch: 2 * chunk, LeastLate: true, ReferrersAPI: true}},
		{"cookies", "uploads are bound to a cookie", Quirks{Cookie: true, ReferrersAPI: true}},
		{"octet-stream", "manifests as application/octet-stream", Quirks{ManifestType: "application/octet-stream", ReferrersAPI: true}},
		{"text-plain", "manifests and listings as text/plain", Quirks{ManifestType: "text/plain; charset=utf-8", TagsType: "text/plain", ReferrersAPI: true}},
		{"lost-answers", "every third answer to a change is lost", Quirks{LoseEvery: 3, ReferrersAPI: true}},
		{"lost-answers-immutable", "the same where a tag may be put once", Quirks{LoseEvery: 3, Immutable: true, ImmutableStrictly: true, ReferrersAPI: true}},
		{"busy", "every third answer is 429", Quirks{BusyEvery: 3, ReferrersAPI: true}},
		{"https-locations", "locations with another scheme", Quirks{Locations: "https", ReferrersAPI: true}},
		{"internal-locations", "locations at an internal host", Quirks{Locations: "internal", ReferrersAPI: true}},
		{"relative-locations", "locations without a slash", Quirks{Locations: "relative", ReferrersAPI: true}},
		{"first-location", "no Location in the answer to PATCH", Quirks{Locations: "first", ReferrersAPI: true}},
		{"statuses", "200 in place of 201 and 204", Quirks{Statuses: true, ReferrersAPI: true}},
		{"redirects", "blobs are in a store elsewhere", Quirks{Redirect: true, ReferrersAPI: true}},
		{"packed", "manifests and listings with Content-Encoding gzip", Quirks{Packed: true, ReferrersAPI: true}},
		{"packed-bare", "the same without lengths and digests", Quirks{Packed: true, NoLengths: true, NoDigests: true}},
		{"ghost-tags", "a listed tag without a manifest", Quirks{GhostTags: []string{"9.9.9"}, ReferrersAPI: true}},
		{"referrers-html", "a page in place of the referrers API", Quirks{ReferrersPage: "<html>sign in</html>"}},
	}
	for _, status := range []int{400, 403, 405, 429, 500, 501, 502, 503} {
		all = append(all, Profile{fmt.Sprint("referrers-", status), "referrers answered by it", Quirks{ReferrersStatus: status}})
	}
	for _, status := range []int{400, 404, 405, 411, 415, 500, 501} {
		all = append(all, Profile{fmt.Sprint("patch-", status), "PATCH answered by it", Quirks{PatchStatus: status, ReferrersAPI: true}})
	}
	return all
}
