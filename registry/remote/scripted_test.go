package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// scripted is a registry with fixed content and injected faults: every request
// goes through fault first, which may respond to it.
type scripted struct {
	fault            func(w http.ResponseWriter, r *http.Request) bool // true: answered
	noPatch, noRange bool

	mu       sync.Mutex
	blobs    map[digest.Digest][]byte
	types    map[digest.Digest]string // of manifests
	tags     map[string]digest.Digest
	sessions map[string][]byte
	opened   int
	received int64 // bytes of upload bodies
}

func newScripted() *scripted {
	return &scripted{blobs: map[digest.Digest][]byte{}, types: map[digest.Digest]string{}, tags: map[string]digest.Digest{}, sessions: map[string][]byte{}}
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

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.fault != nil && s.fault(w, r) {
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
	if len(parts) < 3 {
		return
	}
	switch kind, name := parts[len(parts)-2], parts[len(parts)-1]; {
	case kind == "manifests":
		s.manifest(w, r, name)
	case kind == "uploads":
		s.upload(w, r, name)
	case kind == "blobs":
		s.blob(w, r, digest.Digest(name))
	default: // no referrers API
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *scripted) manifest(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPut {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		d := digest.FromBytes(data)
		s.blobs[d], s.types[d] = data, r.Header.Get("Content-Type")
		if name != d.String() {
			s.tags[name] = d
		}
		w.WriteHeader(http.StatusCreated)
		return
	}
	d, ok := s.tags[name]
	if !ok {
		d = digest.Digest(name)
	}
	if s.types[d] == "" {
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

func (s *scripted) blob(w http.ResponseWriter, r *http.Request, d digest.Digest) {
	s.mu.Lock()
	data, ok := s.blobs[d]
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
		w.Header().Set("Location", r.URL.Path+id)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.mu.Lock()
	have, ok := s.sessions[id]
	s.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.Method == http.MethodDelete {
		s.mu.Lock()
		delete(s.sessions, id)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Method == http.MethodPatch {
		if s.noPatch {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if first, _, _ := strings.Cut(r.Header.Get("Content-Range"), "-"); first != strconv.Itoa(len(have)) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
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
	w.Header().Set("Location", r.URL.Path)
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(len(have)-1, 0)))
	switch r.Method {
	case http.MethodGet:
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPatch:
		w.WriteHeader(http.StatusAccepted)
	case http.MethodPut:
		d := digest.Digest(r.URL.Query().Get("digest"))
		if digest.FromBytes(have) != d {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"errors":[{"code":"DIGEST_INVALID","message":"no"}]}`)
			return
		}
		s.blobs[d] = have
		delete(s.sessions, id)
		w.WriteHeader(http.StatusCreated)
	}
}
