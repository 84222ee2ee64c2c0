// Package registrytest has servers in memory with the peculiarities of real ones and
// injected faults, for tests: a registry, and a hub of models.
package registrytest

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
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Registry is a registry in memory with injected faults: every request goes
// through Fault first, which may respond to it. The quirks are those of real
// registries (see [Profiles]).
type Registry struct {
	Quirks
	Fault            func(w http.ResponseWriter, r *http.Request) bool // true: answered
	NoPatch, NoRange bool

	Mu       sync.Mutex
	Blobs    map[digest.Digest][]byte
	types    map[digest.Digest]string          // of manifests
	Tags     map[string]digest.Digest          // by REPOSITORY:TAG
	subjects map[digest.Digest][]digest.Digest // referrers by subject
	Sessions map[string][]byte
	hidden   map[string]int // how often something new is still not found
	Asked    map[string]int // requests by method and kind: "PATCH uploads"
	opened   int
	Received int64 // bytes of upload bodies
}

// New returns an empty registry without peculiarities.
func New() *Registry {
	return &Registry{
		Blobs: map[digest.Digest][]byte{}, types: map[digest.Digest]string{}, Tags: map[string]digest.Digest{},
		subjects: map[digest.Digest][]digest.Digest{}, Sessions: map[string][]byte{}, hidden: map[string]int{}, Asked: map[string]int{},
	}
}

// Add stores a blob, or a manifest if mediaType is not empty.
func (s *Registry) Add(mediaType string, data []byte) ocispec.Descriptor {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	d := digest.FromBytes(data)
	s.Blobs[d] = data
	if mediaType != "" {
		s.types[d] = mediaType
	}
	return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
}

// AddJSON is Add for the JSON of v.
func (s *Registry) AddJSON(mediaType string, v any) ocispec.Descriptor {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return s.Add(mediaType, data)
}

// Requested returns the number of requests of a method and kind.
func (s *Registry) Requested(what string) int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Asked[what]
}

// ServeHTTP answers a request.
func (s *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
	kind := parts[max(len(parts)-2, 0)]
	if r.Method == http.MethodPost {
		kind = "uploads" // …/blobs/uploads/
	}
	s.Mu.Lock()
	s.Asked[r.Method+" "+kind]++
	n := s.Asked[r.Method+" "+kind]
	s.Mu.Unlock()
	if s.Fault != nil && s.Fault(w, r) {
		return
	}
	if s.BusyEvery > 0 && n%s.BusyEvery == 0 {
		w.Header().Set("Retry-After", "0")
		refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS")
		return
	}
	if s.LoseEvery > 0 && n%s.LoseEvery == 0 && r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.route(&discarded{header: http.Header{}}, r, parts)
		panic(http.ErrAbortHandler) // it was done, and the answer is lost
	}
	dressed := s.dress(w, r)
	s.route(dressed, r, parts)
	if d, ok := dressed.(interface{ close() }); ok {
		d.close()
	}
}

// discarded is an answer that is not sent.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(int)             {}

func (s *Registry) route(w http.ResponseWriter, r *http.Request, parts []string) {
	if len(parts) < 3 {
		return
	}
	switch kind, name := parts[len(parts)-2], parts[len(parts)-1]; {
	case kind == "manifests":
		s.manifest(w, r, strings.Join(parts[:len(parts)-2], "/"), name)
	case kind == "uploads":
		s.upload(w, r, name)
	case kind == "blobs":
		s.ServeBlob(w, r, digest.Digest(name))
	case kind == "tags":
		s.tagList(w, r, strings.Join(parts[:len(parts)-2], "/"))
	case kind == "referrers" && s.ReferrersAPI:
		s.referrerList(w, digest.Digest(name))
	case kind == "referrers" && s.ReferrersPage != "":
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, s.ReferrersPage)
	case kind == "referrers" && s.ReferrersStatus != 0:
		refuse(w, s.ReferrersStatus, "UNSUPPORTED")
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
func (s *Registry) late(what string) bool {
	if s.hidden[what] == 0 {
		return false
	}
	s.hidden[what]--
	return true
}

func (s *Registry) manifest(w http.ResponseWriter, r *http.Request, repo, name string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if r.Method == http.MethodPut {
		s.manifestPut(w, r, repo, name)
		return
	}
	d, ok := s.Tags[repo+":"+name]
	if !ok {
		d = digest.Digest(name)
	}
	if s.types[d] == "" || s.late("manifest "+name) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", s.types[d])
	w.Header().Set("Docker-Content-Digest", d.String())
	w.Header().Set("Content-Length", strconv.Itoa(len(s.Blobs[d])))
	if r.Method == http.MethodGet {
		w.Write(s.Blobs[d])
	}
}

func (s *Registry) manifestPut(w http.ResponseWriter, r *http.Request, repo, name string) {
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
		unknown = unknown || late || s.Strict && s.Blobs[l.Digest] == nil
	}
	if unknown {
		refuse(w, http.StatusBadRequest, "MANIFEST_BLOB_UNKNOWN")
		return
	}
	d := digest.FromBytes(data)
	if name != d.String() {
		if old, exists := s.Tags[repo+":"+name]; s.Immutable && exists && (old != d || s.ImmutableStrictly) {
			refuse(w, http.StatusConflict, "TAG_INVALID")
			return
		} else if !exists {
			s.hidden["manifest "+name], s.hidden["tag "+repo+":"+name] = s.Lag, s.Lag
		}
		s.Tags[repo+":"+name] = d
	} else if s.types[d] == "" {
		s.hidden["manifest "+name] = s.Lag
	}
	s.Blobs[d], s.types[d] = data, r.Header.Get("Content-Type")
	if doc.Subject != nil && s.ReferrersAPI {
		if !slices.Contains(s.subjects[doc.Subject.Digest], d) {
			s.subjects[doc.Subject.Digest] = append(s.subjects[doc.Subject.Digest], d)
		}
		if !s.NoSubjectHeader {
			w.Header().Set("OCI-Subject", doc.Subject.Digest.String())
		}
	}
	w.WriteHeader(http.StatusCreated)
}

// ServeBlob answers a request for a blob.
func (s *Registry) ServeBlob(w http.ResponseWriter, r *http.Request, d digest.Digest) {
	s.Mu.Lock()
	data, ok := s.Blobs[d]
	ok = ok && !s.late("blob "+d.String())
	s.Mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var off int
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &off); err == nil && !s.NoRange {
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
func (s *Registry) upload(w http.ResponseWriter, r *http.Request, id string) {
	if r.Method == http.MethodPost {
		s.Mu.Lock()
		id = fmt.Sprintf("s%d", s.opened)
		s.opened++
		s.Sessions[id] = []byte{}
		s.Mu.Unlock()
		s.open(w, r, id)
		return
	}
	s.Mu.Lock()
	have, ok := s.Sessions[id]
	s.Mu.Unlock()
	if !ok || s.Cookie && !strings.Contains(r.Header.Get("Cookie"), "session="+id) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch {
	case r.Method == http.MethodDelete:
		s.Mu.Lock()
		delete(s.Sessions, id)
		s.Mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method == http.MethodGet && s.NoStatus != 0:
		w.WriteHeader(s.NoStatus)
		return
	case r.Method == http.MethodPatch && !s.patchable(w, r, len(have)):
		return
	}
	body, err := io.ReadAll(r.Body)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Received += int64(len(body))
	have = append(have, body...)
	s.Sessions[id] = have
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
func (s *Registry) commit(w http.ResponseWriter, r *http.Request, id string, have []byte) {
	d := digest.Digest(r.URL.Query().Get("digest"))
	if digest.FromBytes(have) != d {
		delete(s.Sessions, id)
		refuse(w, http.StatusBadRequest, "DIGEST_INVALID")
		return
	}
	if s.Blobs[d] == nil && s.Lag > 0 {
		s.hidden["blob "+d.String()], s.hidden["part "+d.String()] = s.Lag, s.Lag
	}
	s.Blobs[d] = have
	delete(s.Sessions, id)
	w.WriteHeader(http.StatusCreated)
}

// tagList lists the tags of a repository, page by page.
func (s *Registry) tagList(w http.ResponseWriter, r *http.Request, repo string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var names []string
	for key := range s.Tags {
		if name, ok := strings.CutPrefix(key, repo+":"); ok && !s.late("tag "+key) {
			names = append(names, name)
		}
	}
	names = append(names, s.GhostTags...)
	slices.Sort(names)
	if len(names) == 0 {
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN")
		return
	}
	if last := r.URL.Query().Get("last"); last != "" {
		if s.LastPage != 0 {
			refuse(w, s.LastPage, "NAME_UNKNOWN")
			return
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n <= last })
	}
	if s.Page > 0 && len(names) > s.Page {
		names = names[:s.Page]
		w.Header().Set("Link", fmt.Sprintf(`<%s/v2/%s/tags/list?n=%d&last=%s>; rel="next"`, s.LinkHost, repo, s.Page, names[len(names)-1]))
	}
	if s.TagsType != "" {
		w.Header().Set("Content-Type", s.TagsType)
	}
	json.NewEncoder(w).Encode(map[string]any{"name": repo, "tags": names})
}

func (s *Registry) referrerList(w http.ResponseWriter, subject digest.Digest) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	list := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	for _, d := range s.subjects[subject] {
		var m ocispec.Manifest
		if json.Unmarshal(s.Blobs[d], &m) == nil && !s.late("manifest "+d.String()) {
			list.Manifests = append(list.Manifests, ocispec.Descriptor{MediaType: s.types[d], Digest: d, Size: int64(len(s.Blobs[d])), ArtifactType: m.ArtifactType, Annotations: m.Annotations})
		}
	}
	w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	if s.TagsType != "" {
		w.Header().Set("Content-Type", s.TagsType)
	}
	json.NewEncoder(w).Encode(list)
}
