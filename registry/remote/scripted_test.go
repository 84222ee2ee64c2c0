package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// scripted is a registry in memory with injected faults: every request goes
// through fault first, which may respond to it. The quirks are those of real
// registries (see profiles).
type scripted struct {
	quirks
	fault            func(w http.ResponseWriter, r *http.Request) bool // true: answered
	noPatch, noRange bool

	mu       sync.Mutex
	blobs    map[digest.Digest][]byte
	types    map[digest.Digest]string          // of manifests
	tags     map[string]digest.Digest          // by REPOSITORY:TAG
	subjects map[digest.Digest][]digest.Digest // referrers by subject
	sessions map[string][]byte
	hidden   map[string]int // how often something new is still not found
	asked    map[string]int // requests by method and kind: "PATCH uploads"
	opened   int
	received int64 // bytes of upload bodies
}

func newScripted() *scripted {
	return &scripted{
		blobs: map[digest.Digest][]byte{}, types: map[digest.Digest]string{}, tags: map[string]digest.Digest{},
		subjects: map[digest.Digest][]digest.Digest{}, sessions: map[string][]byte{}, hidden: map[string]int{}, asked: map[string]int{},
	}
}

// add stores a blob, or a manifest if mediaType is not empty.
func (s *scripted) add(mediaType string, data []byte) ocispec.Descriptor {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := digest.FromBytes(data)
	s.blobs[d] = data
	if mediaType != "" {
		s.types[d] = mediaType
	}
	return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
}

func (s *scripted) addJSON(mediaType string, v any) ocispec.Descriptor {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return s.add(mediaType, data)
}

// requested returns the number of requests of a method and kind.
func (s *scripted) requested(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[what]
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
	kind := parts[max(len(parts)-2, 0)]
	if r.Method == http.MethodPost {
		kind = "uploads" // …/blobs/uploads/
	}
	s.mu.Lock()
	s.asked[r.Method+" "+kind]++
	n := s.asked[r.Method+" "+kind]
	s.mu.Unlock()
	if s.fault != nil && s.fault(w, r) {
		return
	}
	if s.busyEvery > 0 && n%s.busyEvery == 0 {
		w.Header().Set("Retry-After", "0")
		refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS")
		return
	}
	if s.loseEvery > 0 && n%s.loseEvery == 0 && r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.route(&discarded{header: http.Header{}}, r, parts)
		panic(http.ErrAbortHandler) // it was done, and the answer is lost
	}
	s.route(s.dress(w, r), r, parts)
}

// discarded is an answer that is not sent.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(int)             {}

func (s *scripted) route(w http.ResponseWriter, r *http.Request, parts []string) {
	if len(parts) < 3 {
		return
	}
	switch kind, name := parts[len(parts)-2], parts[len(parts)-1]; {
	case kind == "manifests":
		s.manifest(w, r, strings.Join(parts[:len(parts)-2], "/"), name)
	case kind == "uploads":
		s.upload(w, r, name)
	case kind == "blobs":
		s.blob(w, r, digest.Digest(name))
	case kind == "tags":
		s.tagList(w, r, strings.Join(parts[:len(parts)-2], "/"))
	case kind == "referrers" && s.referrersAPI:
		s.referrerList(w, digest.Digest(name))
	case kind == "referrers" && s.referrersPage != "":
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, s.referrersPage)
	case kind == "referrers" && s.referrersStatus != 0:
		refuse(w, s.referrersStatus, "UNSUPPORTED")
	default: // no referrers API
		w.WriteHeader(http.StatusNotFound)
	}
}

// refuse sends an error in the registry's form.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"%s of the test"}]}`, code, strings.ToLower(code))
}

// late reports whether something new is still invisible. The caller holds mu.
func (s *scripted) late(what string) bool {
	if s.hidden[what] == 0 {
		return false
	}
	s.hidden[what]--
	return true
}

func (s *scripted) manifest(w http.ResponseWriter, r *http.Request, repo, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPut {
		s.manifestPut(w, r, repo, name)
		return
	}
	d, ok := s.tags[repo+":"+name]
	if !ok {
		d = digest.Digest(name)
	}
	if s.types[d] == "" || s.late("manifest "+name) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", s.types[d])
	w.Header().Set("Docker-Content-Digest", d.String())
	w.Header().Set("Content-Length", strconv.Itoa(len(s.blobs[d])))
	if r.Method == http.MethodGet {
		w.Write(s.blobs[d])
	}
}

func (s *scripted) manifestPut(w http.ResponseWriter, r *http.Request, repo, name string) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var doc struct {
		Config  *ocispec.Descriptor
		Layers  []ocispec.Descriptor
		Subject *ocispec.Descriptor
	}
	if json.Unmarshal(data, &doc) != nil {
		refuse(w, http.StatusBadRequest, "MANIFEST_INVALID")
		return
	}
	if doc.Config != nil {
		doc.Layers = append(doc.Layers, *doc.Config)
	}
	unknown := false
	for _, l := range doc.Layers {
		late := s.late("part " + l.Digest.String())
		unknown = unknown || late || s.strict && s.blobs[l.Digest] == nil
	}
	if unknown {
		refuse(w, http.StatusBadRequest, "MANIFEST_BLOB_UNKNOWN")
		return
	}
	d := digest.FromBytes(data)
	if name != d.String() {
		if old, exists := s.tags[repo+":"+name]; s.immutable && exists && (old != d || s.immutableStrictly) {
			refuse(w, http.StatusConflict, "TAG_INVALID")
			return
		} else if !exists {
			s.hidden["manifest "+name], s.hidden["tag "+repo+":"+name] = s.lag, s.lag
		}
		s.tags[repo+":"+name] = d
	} else if s.types[d] == "" {
		s.hidden["manifest "+name] = s.lag
	}
	s.blobs[d], s.types[d] = data, r.Header.Get("Content-Type")
	if doc.Subject != nil && s.referrersAPI {
		if !slices.Contains(s.subjects[doc.Subject.Digest], d) {
			s.subjects[doc.Subject.Digest] = append(s.subjects[doc.Subject.Digest], d)
		}
		if !s.noSubjectHeader {
			w.Header().Set("OCI-Subject", doc.Subject.Digest.String())
		}
	}
	w.WriteHeader(http.StatusCreated)
}

func (s *scripted) blob(w http.ResponseWriter, r *http.Request, d digest.Digest) {
	s.mu.Lock()
	data, ok := s.blobs[d]
	ok = ok && !s.late("blob "+d.String())
	s.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var off int
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &off); err == nil && !s.noRange {
		if off >= len(data) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, len(data)-1, len(data)))
		w.Header().Set("Content-Length", strconv.Itoa(len(data)-off))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		off = 0
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	if r.Method == http.MethodGet {
		w.Write(data[off:])
	}
}

// upload keeps the bytes of a cut request, as a registry on disk does.
func (s *scripted) upload(w http.ResponseWriter, r *http.Request, id string) {
	if r.Method == http.MethodPost {
		s.mu.Lock()
		id = fmt.Sprintf("s%d", s.opened)
		s.opened++
		s.sessions[id] = []byte{}
		s.mu.Unlock()
		s.open(w, r, id)
		return
	}
	s.mu.Lock()
	have, ok := s.sessions[id]
	s.mu.Unlock()
	if !ok || s.cookie && !strings.Contains(r.Header.Get("Cookie"), "session="+id) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch {
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.sessions, id)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method == http.MethodGet && s.noStatus != 0:
		w.WriteHeader(s.noStatus)
		return
	case r.Method == http.MethodPatch && !s.patchable(w, r, len(have)):
		return
	}
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received += int64(len(body))
	have = append(have, body...)
	s.sessions[id] = have
	if err != nil {
		return
	}
	w.Header().Set("Location", s.location(r, id))
	w.Header().Set("Range", s.span(r.Method, len(have), len(body)))
	switch r.Method {
	case http.MethodGet:
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPatch:
		w.WriteHeader(http.StatusAccepted)
	case http.MethodPut:
		s.commit(w, r, id, have)
	}
}

// commit ends an upload. The caller holds mu.
func (s *scripted) commit(w http.ResponseWriter, r *http.Request, id string, have []byte) {
	d := digest.Digest(r.URL.Query().Get("digest"))
	if digest.FromBytes(have) != d {
		delete(s.sessions, id)
		refuse(w, http.StatusBadRequest, "DIGEST_INVALID")
		return
	}
	if s.blobs[d] == nil && s.lag > 0 {
		s.hidden["blob "+d.String()], s.hidden["part "+d.String()] = s.lag, s.lag
	}
	s.blobs[d] = have
	delete(s.sessions, id)
	w.WriteHeader(http.StatusCreated)
}

// tagList lists the tags of a repository, page by page.
func (s *scripted) tagList(w http.ResponseWriter, r *http.Request, repo string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for key := range s.tags {
		if name, ok := strings.CutPrefix(key, repo+":"); ok && !s.late("tag "+key) {
			names = append(names, name)
		}
	}
	names = append(names, s.ghostTags...)
	slices.Sort(names)
	if len(names) == 0 {
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN")
		return
	}
	if last := r.URL.Query().Get("last"); last != "" {
		if s.lastPage != 0 {
			refuse(w, s.lastPage, "NAME_UNKNOWN")
			return
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n <= last })
	}
	if s.page > 0 && len(names) > s.page {
		names = names[:s.page]
		w.Header().Set("Link", fmt.Sprintf(`<%s/v2/%s/tags/list?n=%d&last=%s>; rel="next"`, s.linkHost, repo, s.page, names[len(names)-1]))
	}
	if s.tagsType != "" {
		w.Header().Set("Content-Type", s.tagsType)
	}
	json.NewEncoder(w).Encode(map[string]any{"name": repo, "tags": names})
}

func (s *scripted) referrerList(w http.ResponseWriter, subject digest.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := ocispec.Index{Versioned: versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	for _, d := range s.subjects[subject] {
		var m ocispec.Manifest
		if json.Unmarshal(s.blobs[d], &m) == nil && !s.late("manifest "+d.String()) {
			list.Manifests = append(list.Manifests, ocispec.Descriptor{MediaType: s.types[d], Digest: d, Size: int64(len(s.blobs[d])), ArtifactType: m.ArtifactType, Annotations: m.Annotations})
		}
	}
	w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	if s.tagsType != "" {
		w.Header().Set("Content-Type", s.tagsType)
	}
	json.NewEncoder(w).Encode(list)
}
