package buckettest

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// NewAzure starts a double of Azure Blob Storage, which holds any container.
func NewAzure(t testing.TB) *Store {
	s := &Store{}
	return start(t, s, s.serveAzure)
}

func (s *Store) serveAzure(w http.ResponseWriter, r *http.Request) {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != max(r.ContentLength, 0) {
		return // cut
	}
	if want := r.Header.Get("Content-Md5"); want != "" {
		if sum := md5.Sum(body); want != base64.StdEncoding.EncodeToString(sum[:]) {
			refuseAzure(w, http.StatusBadRequest, "Md5Mismatch")
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Received += int64(len(body))
	q := r.URL.Query()
	switch {
	case q.Get("comp") == "list":
		s.listAzure(w, q.Get("prefix"), q.Get("marker"))
	case q.Get("comp") == "block" || q.Get("comp") == "blocklist":
		s.blocksAzure(w, r, key, body)
	case r.Method == http.MethodPut:
		s.commitAzure(w, r, key, body)
	case s.objects[key] == nil:
		refuseAzure(w, http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusAccepted)
	default:
		o := s.objects[key]
		w.Header().Set("ETag", `"`+o.etag+`"`)
		w.Header().Set("Last-Modified", o.modified.Format(http.TimeFormat))
		for name, value := range o.meta {
			w.Header().Set("X-Ms-Meta-"+name, value)
		}
		serve(w, r, o)
	}
}

func refuseAzure(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>refused</Message></Error>", code)
}

// commitAzure writes a blob.
func (s *Store) commitAzure(w http.ResponseWriter, r *http.Request, key string, data []byte) {
	o, ok := s.put(key, data, metaOf(r.Header, "X-Ms-Meta-"), r.Header.Get("If-None-Match") == "*")
	if !ok {
		refuseAzure(w, http.StatusConflict, "BlobAlreadyExists")
		return
	}
	delete(s.uploads, key)
	w.Header().Set("ETag", `"`+o.etag+`"`)
	w.WriteHeader(http.StatusCreated)
}

func (s *Store) listAzure(w http.ResponseWriter, prefix, after string) {
	keys, next := s.page(prefix, after)
	var b strings.Builder
	b.WriteString("\ufeff<?xml version=\"1.0\"?><EnumerationResults><Blobs>")
	for _, key := range keys {
		o := s.objects[key]
		b.WriteString("<Blob><Name>")
		xml.EscapeText(&b, []byte(key))
		fmt.Fprintf(&b, "</Name><Properties><Last-Modified>%s</Last-Modified><Etag>%s</Etag><Content-Length>%d</Content-Length></Properties></Blob>",
			o.modified.Format(http.TimeFormat), o.etag, len(o.data))
	}
	fmt.Fprintf(&b, "</Blobs><NextMarker>%s</NextMarker></EnumerationResults>", next)
	io.WriteString(w, b.String())
}

// blocksAzure serves uploads in blocks.
func (s *Store) blocksAzure(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	u := s.uploads[key]
	switch {
	case r.Method == http.MethodGet && u == nil && s.objects[key] == nil:
		refuseAzure(w, http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodGet:
		fmt.Fprint(w, "<BlockList><UncommittedBlocks>")
		if u != nil {
			for id, data := range u.parts {
				fmt.Fprintf(w, "<Block><Name>%s</Name><Size>%d</Size></Block>", id, len(data))
			}
		}
		fmt.Fprint(w, "</UncommittedBlocks></BlockList>")
	case r.URL.Query().Get("comp") == "block":
		if u == nil {
			u = &upload{key: key, parts: map[string][]byte{}}
			s.uploads[key] = u
		}
		u.parts[r.URL.Query().Get("blockid")] = slices.Clone(body)
		w.WriteHeader(http.StatusCreated)
	default:
		var list struct{ Latest []string }
		var data []byte
		err := xml.Unmarshal(body, &list)
		for _, id := range list.Latest {
			if u == nil || u.parts[id] == nil {
				err = io.ErrUnexpectedEOF
				break
			}
			data = append(data, u.parts[id]...)
		}
		if err != nil {
			refuseAzure(w, http.StatusBadRequest, "InvalidBlockList")
			return
		}
		s.commitAzure(w, r, key, data)
	}
}
