package buckettest

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// NewS3 starts a double of Amazon S3 that holds any bucket.
func NewS3(t testing.TB) *Store {
	s := &Store{}
	return start(t, s, s.serveS3)
}

func (s *Store) serveS3(w http.ResponseWriter, r *http.Request) {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != max(r.ContentLength, 0) {
		return // cut
	}
	if want := r.Header.Get("X-Amz-Content-Sha256"); len(want) == 64 && want != Digest(body) {
		refuseS3(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Received += int64(len(body))
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && q.Has("location"):
		fmt.Fprint(w, `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`)
	case r.Method == http.MethodGet && key == "":
		s.listS3(w, q.Get("prefix"), q.Get("continuation-token"))
	case q.Has("uploads") || q.Has("uploadId"):
		s.partsS3(w, r, key, body)
	case r.Method == http.MethodPut:
		o, ok := s.put(key, body, metaOf(r.Header, "X-Amz-Meta-"), r.Header.Get("If-None-Match") == "*")
		if !ok {
			refuseS3(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		w.Header().Set("ETag", `"`+o.etag+`"`)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case s.objects[key] == nil:
		refuseS3(w, http.StatusNotFound, "NoSuchKey")
	default:
		o := s.objects[key]
		w.Header().Set("ETag", `"`+o.etag+`"`)
		w.Header().Set("Last-Modified", o.modified.Format(http.TimeFormat))
		for name, value := range o.meta {
			w.Header().Set("X-Amz-Meta-"+name, value)
		}
		serve(w, r, o)
	}
}

// metaOf returns the metadata in headers with the prefix.
func metaOf(h http.Header, prefix string) map[string]string {
	meta := map[string]string{}
	for name := range h {
		if key, ok := strings.CutPrefix(name, prefix); ok {
			meta[strings.ToLower(key)] = h.Get(name)
		}
	}
	return meta
}

func refuseS3(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

type s3List struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string
	Contents              []s3Entry
}

type s3Entry struct {
	Key, ETag, LastModified string
	Size                    int
}

func (s *Store) listS3(w http.ResponseWriter, prefix, after string) {
	keys, next := s.page(prefix, after)
	list := s3List{IsTruncated: next != "", NextContinuationToken: next}
	for _, key := range keys {
		o := s.objects[key]
		list.Contents = append(list.Contents, s3Entry{key, `"` + o.etag + `"`, o.modified.Format(time.RFC3339), len(o.data)})
	}
	xml.NewEncoder(w).Encode(list)
}

type s3Part struct {
	PartNumber int
	ETag       string
	Size       int
}

// partsS3 serves uploads in parts.
func (s *Store) partsS3(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	q := r.URL.Query()
	if q.Has("uploads") {
		s.version++
		id := fmt.Sprint("upload-", s.version)
		s.uploads[id] = &upload{key: key, meta: metaOf(r.Header, "X-Amz-Meta-"), parts: map[string][]byte{}}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
		return
	}
	id := q.Get("uploadId")
	u := s.uploads[id]
	if u == nil || u.key != key {
		refuseS3(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	switch r.Method {
	case http.MethodPut:
		if sum := md5.Sum(body); r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) {
			refuseS3(w, http.StatusBadRequest, "BadDigest")
			return
		}
		u.parts[q.Get("partNumber")] = body
		w.Header().Set("ETag", `"`+md5Hex(body)+`"`)
	case http.MethodGet:
		list := struct {
			XMLName xml.Name `xml:"ListPartsResult"`
			Part    []s3Part
		}{}
		for number, data := range u.parts {
			n, _ := strconv.Atoi(number)
			list.Part = append(list.Part, s3Part{n, `"` + md5Hex(data) + `"`, len(data)})
		}
		xml.NewEncoder(w).Encode(list)
	case http.MethodDelete:
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		s.completeS3(w, r, id, u, body)
	}
}

func (s *Store) completeS3(w http.ResponseWriter, r *http.Request, id string, u *upload, body []byte) {
	var list struct{ Part []s3Part }
	if err := xml.Unmarshal(body, &list); err != nil {
		refuseS3(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	var data []byte
	for _, p := range list.Part {
		part, ok := u.parts[strconv.Itoa(p.PartNumber)]
		if !ok || strings.Trim(p.ETag, `"`) != md5Hex(part) {
			refuseS3(w, http.StatusBadRequest, "InvalidPart")
			return
		}
		data = append(data, part...)
	}
	o, ok := s.put(u.key, data, u.meta, r.Header.Get("If-None-Match") == "*")
	if !ok {
		refuseS3(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	delete(s.uploads, id)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><CompleteMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Bucket>bucket</Bucket><ETag>"%s"</ETag></CompleteMultipartUploadResult>`, o.etag)
}
