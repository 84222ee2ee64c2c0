package api

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Shape returns the body of an error in a wire format.
type Shape func(*Error) any

// Route is a path of the server.
type Route struct {
	Method, Pattern string // the pattern is of [http.ServeMux], without a method
	// Serve answers. An error that it returns before it wrote is written in the shape of
	// the path.
	Serve func(c *Call) error
	// Open routes need no key.
	Open bool
	// Password routes also take the key as the password of HTTP Basic, which browsers ask for.
	Password bool
	// AnyType routes read bodies of any type as JSON, as their clients need. Pages of other
	// sites are refused by their origin.
	AnyType bool
}

// Shape sets the shape of errors below a prefix of paths; the longest prefix counts.
func (s *Server) Shape(prefix string, shape Shape) { s.shapes[prefix] = shape }

// Handle adds routes.
func (s *Server) Handle(routes ...Route) {
	for _, r := range routes {
		s.routes[r.Pattern] = append(s.routes[r.Pattern], r.Method)
		s.mux.Handle(r.Method+" "+r.Pattern, s.handler(r))
		if len(s.routes[r.Pattern]) == 1 {
			s.mux.HandleFunc(r.Pattern, s.wrongMethod(r.Pattern))
		}
	}
}

// Mount adds a handler for all methods of a path. It is behind the checks of the server.
func (s *Server) Mount(pattern string, h http.Handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.holder(r); !ok {
			s.refuse(w, r, unknownKey())
			return
		}
		endless(w)
		h.ServeHTTP(w, r)
	})
}

func unknownKey() *Error {
	return &Error{Status: http.StatusUnauthorized, Kind: Authentication, Code: "invalid_api_key", Message: "a known key is required: Authorization: Bearer KEY"}
}

func (s *Server) handler(route Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name, ok := s.holder(r)
		if !ok && route.Password {
			_, password, _ := r.BasicAuth()
			if name, ok = s.owner(password); !ok {
				w.Header().Set("WWW-Authenticate", `Basic realm="mm: the password is a key of this server"`)
			}
		}
		if !ok && !route.Open {
			s.refuse(w, r, unknownKey())
			return
		}
		c := &Call{W: w, R: r, Key: name, ID: s.ID("req_"), server: s, any: route.AnyType, begun: time.Now(), span: &traced{}}
		w.Header().Set("X-Request-Id", c.ID)
		w.Header().Set("Request-Id", c.ID) // as Anthropic's clients read it
		err := route.Serve(c)
		if err != nil && c.status == 0 {
			c.status = s.refuse(w, r, c.problem(err))
		}
		s.metrics.answered(route.Pattern, c.status)
		s.log(c, route.Pattern)
		s.trace(c, route.Pattern)
	}
}

func (s *Server) log(c *Call, pattern string) {
	if s.opt.Log != nil {
		s.opt.Log(strings.Join([]string{c.ID, c.R.Method, pattern, strconv.Itoa(c.status), time.Since(c.begun).Round(time.Millisecond).String(), c.Key}, " "))
	}
}

func (s *Server) wrongMethod(pattern string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		allow := slices.Sorted(slices.Values(s.routes[pattern]))
		s.metrics.answered(pattern, s.refuse(w, r, &Error{
			Status: http.StatusMethodNotAllowed, Kind: InvalidRequest, Allow: allow, Message: "method " + short(r.Method) + " is not allowed: use " + strings.Join(allow, " or "),
		}))
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.begin(w)
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	if why := s.admit(r); why != nil {
		s.metrics.answered("refused", s.refuse(w, r, why))
		return
	}
	if s.share(w, r) {
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" || path.Clean(r.URL.Path) != r.URL.Path {
		s.metrics.answered("unknown", s.refuse(w, r, &Error{Status: http.StatusNotFound, Kind: InvalidRequest, Code: "unknown_path", Message: "unknown path " + short(r.URL.Path)}))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// refuse writes an error in the shape of the path and returns its status.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e *Error) int {
	if errors.Is(e, errGone) {
		return e.Status
	}
	h := w.Header()
	if e.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(e.Retry.Seconds()))))
	}
	if e.Status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if len(e.Allow) > 0 {
		h.Set("Allow", strings.Join(e.Allow, ", "))
	}
	_ = writeJSON(w, e.Status, s.shape(r.URL.Path)(e)) // the client may have gone
	return e.Status
}

// shape returns the shape of errors of a path.
func (s *Server) shape(path string) Shape {
	best, shape := -1, Shape(func(e *Error) any { return map[string]string{"error": e.Message} })
	for prefix, one := range s.shapes {
		if strings.HasPrefix(path, prefix) && len(prefix) > best {
			best, shape = len(prefix), one
		}
	}
	return shape
}
