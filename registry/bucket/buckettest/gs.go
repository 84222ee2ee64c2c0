package buckettest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// NewGS starts a double of Google Cloud Storage that holds any bucket.
func NewGS(t testing.TB) *Store {
	s := &Store{}
	return start(t, s, s.serveGS)
}

type gsObject struct {
	Name       string            `json:"name"`
	Size       string            `json:"size"`
	Generation string            `json:"generation"`
	Updated    string            `json:"updated"`
	CRC32C     string            `json:"crc32c,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

func gsOf(key string, o *object) gsObject {
	return gsObject{key, strconv.Itoa(len(o.data)), strconv.Itoa(o.version), o.modified.Format("2006-01-02T15:04:05.000Z"), "", o.meta}
}

func (s *Store) serveGS(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != max(r.ContentLength, 0) {
		return // cut
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Received += int64(len(body))
	q := r.URL.Query()
	_, key, _ := strings.Cut(r.URL.Path, "/o/")
	o := s.objects[key]
	switch {
	case strings.HasPrefix(r.URL.Path, "/upload/"):
		s.uploadGS(w, r, body)
	case key == "":
		s.listGS(w, q.Get("prefix"), q.Get("pageToken"))
	case o == nil:
		refuseGS(w, http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case q.Get("alt") == "media":
		if match := q.Get("ifGenerationMatch"); match != "" && match != strconv.Itoa(o.version) {
			refuseGS(w, http.StatusPreconditionFailed)
			return
		}
		w.Header().Set("X-Goog-Generation", strconv.Itoa(o.version))
		serve(w, r, o)
	default:
		json.NewEncoder(w).Encode(gsOf(key, o))
	}
}

func refuseGS(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error": {"code": %d, "message": "refused"}}`, status)
}

func (s *Store) listGS(w http.ResponseWriter, prefix, after string) {
	keys, next := s.page(prefix, after)
	items := []gsObject{}
	for _, key := range keys {
		items = append(items, gsOf(key, s.objects[key]))
	}
	json.NewEncoder(w).Encode(map[string]any{"items": items, "nextPageToken": next})
}

// uploadGS serves resumable uploads.
func (s *Store) uploadGS(w http.ResponseWriter, r *http.Request, body []byte) {
	q := r.URL.Query()
	if r.Method == http.MethodPost {
		var o gsObject
		if json.Unmarshal(body, &o) != nil {
			refuseGS(w, http.StatusBadRequest)
			return
		}
		absent := q.Get("ifGenerationMatch") == "0"
		if absent && s.objects[q.Get("name")] != nil {
			refuseGS(w, http.StatusPreconditionFailed)
			return
		}
		s.version++
		id := fmt.Sprint("session-", s.version)
		if o.Metadata == nil {
			o.Metadata = map[string]string{}
		}
		o.Metadata["\x00crc32c"] = o.CRC32C
		s.uploads[id] = &upload{key: q.Get("name"), meta: o.Metadata, absent: absent}
		w.Header().Set("Location", s.URL+r.URL.Path+"?uploadType=resumable&upload_id="+id)
		return
	}
	id := q.Get("upload_id")
	u := s.uploads[id]
	switch {
	case u == nil:
		refuseGS(w, http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(s.uploads, id)
		w.WriteHeader(499)
	default:
		s.appendGS(w, id, u, r.Header.Get("Content-Range"), body)
	}
}

// appendGS appends bytes to an upload and completes it.
func (s *Store) appendGS(w http.ResponseWriter, id string, u *upload, span string, body []byte) {
	first, total, _ := strings.Cut(strings.TrimPrefix(span, "bytes "), "/")
	size, _ := strconv.ParseInt(total, 10, 64)
	if from, _, ok := strings.Cut(first, "-"); ok {
		if off, _ := strconv.Atoi(from); off != len(u.data) {
			refuseGS(w, http.StatusServiceUnavailable)
			return
		}
		u.data = append(u.data, body...)
	}
	if int64(len(u.data)) < size {
		if len(u.data) > 0 {
			w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(u.data)-1))
		}
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(u.data, crc32.MakeTable(crc32.Castagnoli)))
	delete(s.uploads, id)
	if u.meta["\x00crc32c"] != base64.StdEncoding.EncodeToString(sum) {
		refuseGS(w, http.StatusBadRequest)
		return
	}
	delete(u.meta, "\x00crc32c")
	o, ok := s.put(u.key, u.data, u.meta, u.absent)
	if !ok {
		refuseGS(w, http.StatusPreconditionFailed)
		return
	}
	json.NewEncoder(w).Encode(gsOf(u.key, o))
}
