package buckettest

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Store is a bucket in memory behind the HTTP face of a vendor.
type Store struct {
	URL  string
	Page int                                                             // objects of a page of a listing. Zero: 2
	Hook func(next http.Handler, w http.ResponseWriter, r *http.Request) // replaces answers. Nil: none

	mu       sync.Mutex
	objects  map[string]*object
	uploads  map[string]*upload
	version  int
	Requests []string // method and path with query
	Received int64    // bytes of bodies
}

type object struct {
	data     []byte
	meta     map[string]string
	etag     string
	version  int
	modified time.Time
}

// upload holds the parts, blocks or the beginning of an object.
type upload struct {
	key    string
	meta   map[string]string
	parts  map[string][]byte
	data   []byte
	absent bool
}

// start serves the store by face.
func start(t testing.TB, s *Store, face http.HandlerFunc) *Store {
	s.objects, s.uploads = map[string]*object{}, map[string]*upload{}
	face = buffered(face)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.Requests = append(s.Requests, r.Method+" "+r.URL.RequestURI())
		hook := s.Hook
		s.mu.Unlock()
		if hook != nil {
			hook(face, w, r)
			return
		}
		face(w, r)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// buffered returns face with answers that are sent after it has returned. Otherwise a client
// that copies an object into a PUT waits for the lock of the GET.
func buffered(face http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		face(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
	}
}

// Set replaces the hook.
func (s *Store) Set(hook func(next http.Handler, w http.ResponseWriter, r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Hook = hook
}

// Count returns the number of requests whose line contains text.
func (s *Store) Count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.Requests {
		if strings.Contains(r, text) {
			n++
		}
	}
	return n
}

// Uploads returns the number of unfinished uploads.
func (s *Store) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Damage changes a byte of an object, and neither its version nor its metadata.
func (s *Store) Damage(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key].data[len(s.objects[key].data)/2] ^= 1
}

// put stores an object, unless it exists and absent is set. The caller holds mu.
func (s *Store) put(key string, data []byte, meta map[string]string, absent bool) (*object, bool) {
	if s.objects[key] != nil && absent {
		return nil, false
	}
	s.version++
	o := &object{data: data, meta: meta, etag: fmt.Sprintf("%s-%d", md5Hex(data), s.version), version: s.version, modified: time.Now().UTC().Truncate(time.Second)}
	s.objects[key] = o
	return o, true
}

func md5Hex(data []byte) string {
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:])
}

// page returns the keys of a page of a listing and the mark of the next.
func (s *Store) page(prefix, after string) (keys []string, next string) {
	size := s.Page
	if size == 0 {
		size = 2
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after && after != "" {
			continue
		}
		if len(keys) == size {
			return keys, keys[size-1]
		}
		keys = append(keys, key)
	}
	return keys, ""
}

// serve writes the object or the range that r asks for.
func serve(w http.ResponseWriter, r *http.Request, o *object) {
	if match := strings.Trim(r.Header.Get("If-Match"), `"`); match != "" && match != o.etag {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	data, status := o.data, http.StatusOK
	span := r.Header.Get("Range")
	if span == "" {
		span = r.Header.Get("X-Ms-Range")
	}
	if from, to, ok := strings.Cut(strings.TrimPrefix(span, "bytes="), "-"); ok {
		first, _ := strconv.Atoi(from)
		last, err := strconv.Atoi(to)
		if err != nil || last >= len(data) {
			last = len(data) - 1
		}
		if first > last {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(data)))
		data, status = data[first:last+1], http.StatusPartialContent
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(data)
	}
}
