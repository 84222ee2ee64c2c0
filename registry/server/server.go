// Package server serves a [registry.Store] as an OCI registry
// (distribution-spec v1.1): pull, push (monolithic, chunked, streamed, by
// mount), tags, referrers, deletion.
//
// All repositories share the store's blobs. [registry.Store.Shows] decides
// what a repository shows: links, written by pushes here, and tags
// "repository:tag", however they were set. So an artifact that was assembled
// and tagged on this machine can be pulled immediately, and deleting a blob in
// one repository is immediate there and does not affect the others.
//
// Upload sessions are on disk and survive the server for a while:
// [Server.Tend] drops abandoned ones. Nothing that a client sends is visible
// before its digest is checked and its bytes are durable.
package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// maxManifest bounds a manifest (distribution-spec, Pushing Manifests).
const maxManifest = artifact.MaxManifestBytes

// Options for [New].
type Options struct {
	ReadOnly  bool          // refuse every change. Zero: accept pushes
	User      string        // with Password, the one login. Zero: see Htpasswd
	Password  string        //
	Htpasswd  []byte        // lines of user:bcrypt-hash. Nil, and no User: no login is required
	Hosts     []string      // host names, without port, by which clients may address it, in addition to localhost and addresses
	AnyHost   bool          // accept any host name. Zero: only those, since a web page may point its own name to this machine (DNS rebinding)
	MaxBlob   int64         // bytes of one blob. Zero: limited by the disk
	MaxStore  int64         // bytes of all blobs, incomplete ones too. Zero: limited by the disk
	UploadAge time.Duration // when an upload without progress is dropped. Zero: 6 hours
	MinRate   int64         // bytes a second that a body must bring, over half a minute. Zero: 1024
}

const (
	defaultUploadAge = 6 * time.Hour
	defaultMinRate   = 1 << 10
)

// Server is an http.Handler for the paths below /v2/. Run its [Server.Tend] as
// well.
type Server struct {
	store  *registry.Store
	opt    Options
	auth   *logins // nil: open
	cross  *http.CrossOriginProtection
	window time.Duration // over which a body's rate is measured
	room   room
	turns  turns
	edited atomic.Int64 // when the names last changed, in nanoseconds; 0: since then they were compacted
}

// New returns a handler that serves store.
func New(store *registry.Store, opt Options) (*Server, error) {
	auth, err := newLogins(opt)
	if err != nil {
		return nil, fmt.Errorf("registry server: %w", err)
	}
	if opt.UploadAge <= 0 {
		opt.UploadAge = defaultUploadAge
	}
	if opt.MinRate <= 0 {
		opt.MinRate = defaultMinRate
	}
	s := &Server{store: store, opt: opt, auth: auth, cross: http.NewCrossOriginProtection(), window: rateWindow}
	s.room = room{store: store, limit: opt.MaxStore}
	if err := s.room.measure(context.Background()); err != nil {
		return nil, fmt.Errorf("registry server: %w", err)
	}
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := s.admit(w, r); err != nil {
		writeError(w, r, err)
		return
	}
	req, err := s.route(w, r)
	if err == nil {
		err = req.serve()
	}
	if err != nil {
		writeError(w, r, err)
	}
}

// admit checks host, login, origin and whether changes are allowed.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) error {
	if !s.named(r.Host) {
		return fault(http.StatusMisdirectedRequest, "DENIED", "this registry is not known as %q (mm registry serve --host)", clip(r.Host))
	}
	if s.auth != nil && !s.auth.allow(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="mm registry", charset="UTF-8"`)
		return fault(http.StatusUnauthorized, "UNAUTHORIZED", "log in first")
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	// A page in the user's browser must not push to a registry on loopback.
	if err := s.cross.Check(r); err != nil {
		return fault(http.StatusForbidden, "DENIED", "request from a web page")
	}
	if s.opt.ReadOnly {
		return fault(http.StatusMethodNotAllowed, "UNSUPPORTED", "the registry is read-only")
	}
	return nil
}

// named reports whether clients may address the registry by this host. Other
// names are refused (DNS rebinding): a page at evil.example that points its
// name to this machine is same-origin with the responses.
func (s *Server) named(host string) bool {
	if s.opt.AnyHost {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if addr, _, _ := strings.Cut(name, "%"); net.ParseIP(addr) != nil {
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		slices.ContainsFunc(s.opt.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// request is a request whose path has been understood.
type request struct {
	*Server
	w     http.ResponseWriter
	r     *http.Request
	repo  string
	arg   string // the rest of the path: digest, tag, session
	serve func() error
}

// route finds the handler of a path. A repository's name may hold the words of
// the API, so the path is read from its end.
func (s *Server) route(w http.ResponseWriter, r *http.Request) (*request, error) {
	req := &request{Server: s, w: w, r: r}
	path, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	if !ok && r.URL.Path != "/v2" {
		return nil, fault(http.StatusNotFound, "UNSUPPORTED", "unknown path; the API is below /v2/")
	}
	switch path {
	case "":
		return req.only(map[string]func() error{http.MethodGet: req.ping})
	case "_catalog":
		return req.only(map[string]func() error{http.MethodGet: req.catalog})
	}
	parts := strings.Split(path, "/")
	n := len(parts)
	var methods map[string]func() error
	switch {
	case n >= 4 && parts[n-3] == "blobs" && parts[n-2] == "uploads" && parts[n-1] != "":
		req.repo, req.arg = strings.Join(parts[:n-3], "/"), parts[n-1]
		methods = map[string]func() error{http.MethodGet: req.uploadStatus, http.MethodPatch: req.uploadChunk,
			http.MethodPut: req.uploadEnd, http.MethodDelete: req.uploadCancel}
	case n >= 4 && parts[n-3] == "blobs" && parts[n-2] == "uploads":
		req.repo = strings.Join(parts[:n-3], "/")
		methods = map[string]func() error{http.MethodPost: req.uploadStart}
	case n >= 3 && parts[n-2] == "blobs" && parts[n-1] == "uploads" && r.Method == http.MethodPost:
		req.repo = strings.Join(parts[:n-2], "/")
		methods = map[string]func() error{http.MethodPost: req.uploadStart}
	case n >= 3 && parts[n-2] == "blobs":
		methods = map[string]func() error{http.MethodGet: req.blobGet, http.MethodDelete: req.blobDelete}
	case n >= 3 && parts[n-2] == "manifests":
		methods = map[string]func() error{http.MethodGet: req.manifestGet, http.MethodPut: req.manifestPut, http.MethodDelete: req.manifestDelete}
	case n >= 3 && parts[n-2] == "referrers":
		methods = map[string]func() error{http.MethodGet: req.referrers}
	case n >= 3 && parts[n-2] == "tags" && parts[n-1] == "list":
		methods = map[string]func() error{http.MethodGet: req.tagList}
	default:
		return nil, fault(http.StatusNotFound, "UNSUPPORTED", "no such path")
	}
	if req.repo == "" {
		req.repo, req.arg = strings.Join(parts[:n-2], "/"), parts[n-1]
	}
	if !registry.ValidRepo(req.repo) {
		return nil, fault(http.StatusBadRequest, "NAME_INVALID", "invalid repository name %q", clip(req.repo))
	}
	return req.only(methods)
}

// only picks the handler of the method. HEAD is GET without a body.
func (req *request) only(methods map[string]func() error) (*request, error) {
	method := req.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	serve, ok := methods[method]
	if !ok {
		return nil, fault(http.StatusMethodNotAllowed, "UNSUPPORTED", "%s is not for this path", clip(req.r.Method))
	}
	req.serve = serve
	return req, nil
}

// ping answers that this is a registry (distribution-spec, Determining Support).
func (req *request) ping() error {
	return req.json("application/json", struct{}{})
}
