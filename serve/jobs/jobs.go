// Package jobs adds work that outlives its request to a server: POST /assemble composes the
// build of a graph, POST /evaluate asks a served build the tasks of a suite.
//
// Graphs and suites are below a folder that the operator names; a client never sends one and
// names no other path. A job waits in a bounded queue, runs with a time limit, and belongs to
// the key that started it: the clients of other keys do not see it. Its events are numbered, so
// that a client whose connection broke resumes with Last-Event-ID. Jobs and their results are
// in memory, the last ones of each key.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/serve/api"
)

// Assembler composes the build of a graph. The graph is an absolute path.
type Assembler func(ctx context.Context, opt assemble.Options, locked bool) (*assemble.Result, error)

// Options configures [Mount].
type Options struct {
	Dir      string        // of graphs and suites; "": none, and no jobs
	Time     time.Duration // of a job; 0: an hour
	Running  int           // jobs at a time; 0: one
	Queue    int           // jobs that wait; 0: 16
	Kept     int           // finished jobs of a key; 0: 32
	Assemble Assembler
	// Ended receives each job that ended, for the audit log; may be nil.
	Ended func(kind, ref, digest string, err error)
}

// The limits of jobs.
const (
	defaultTime = time.Hour
	maxEvents   = 1000 // of a job that are kept
	maxWatchers = 64   // streams of events
	keyWatchers = 16   // those of a key
	maxExports  = 64   // of an assembly
	maxTasks    = 64   // files and folders of an evaluation
)

// Jobs are the jobs of a server. It is safe for concurrent use.
type Jobs struct {
	opt    Options
	server *api.Server
	root   *os.Root // nil: without jobs
	dir    string   // of root

	mu       sync.Mutex
	all      []*job // by arrival
	running  int
	watchers map[string]int // by key
}

// Mount adds the routes of jobs to a server. Without a folder they refuse every request.
func Mount(s *api.Server, opt Options) (*Jobs, error) {
	opt.Time, opt.Running = cmp.Or(opt.Time, defaultTime), cmp.Or(opt.Running, 1)
	opt.Queue, opt.Kept = cmp.Or(opt.Queue, 16), cmp.Or(opt.Kept, 32)
	if opt.Ended == nil {
		opt.Ended = func(string, string, string, error) {}
	}
	j := &Jobs{opt: opt, server: s, watchers: map[string]int{}}
	if opt.Dir != "" {
		dir, err := filepath.Abs(opt.Dir)
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err == nil {
			j.root, err = os.OpenRoot(dir)
		}
		if err != nil {
			return nil, fmt.Errorf("opening the folder of jobs: %w", err)
		}
		j.dir = dir
	}
	s.Handle(
		api.Route{Method: "POST", Pattern: "/assemble", Serve: j.allowed(j.assemble)},
		api.Route{Method: "POST", Pattern: "/evaluate", Serve: j.allowed(j.evaluate)},
		api.Route{Method: "GET", Pattern: "/jobs", Serve: j.allowed(j.list)},
		api.Route{Method: "GET", Pattern: "/jobs/{id}", Serve: j.allowed(j.show)},
		api.Route{Method: "DELETE", Pattern: "/jobs/{id}", Serve: j.allowed(j.cancel)},
		api.Route{Method: "GET", Pattern: "/jobs/{id}/events", Serve: j.allowed(j.events)},
	)
	return j, nil
}

// Close frees the folder. The server must have drained.
func (j *Jobs) Close() error {
	if j.root == nil {
		return nil
	}
	return j.root.Close()
}

// allowed refuses the requests of a server without jobs.
func (j *Jobs) allowed(serve func(*api.Call) error) func(*api.Call) error {
	return func(c *api.Call) error {
		if j.root == nil {
			return &api.Error{Status: http.StatusNotFound, Kind: api.InvalidRequest, Code: "jobs_off", Message: "the server runs no jobs (--jobs names the folder of their graphs and suites)"}
		}
		return serve(c)
	}
}

// path returns the absolute path of a file or folder that the field param of a body names. No
// component may leave the folder of jobs, by dots or by links.
func (j *Jobs) path(param, name string) (string, error) {
	local := filepath.FromSlash(name)
	if name == "" || strings.ContainsRune(name, 0) {
		return "", api.Invalid(param, "%s: want a path below the folder of jobs", param)
	}
	err := fs.ErrPermission
	if filepath.IsLocal(local) {
		_, err = j.root.Stat(local)
	}
	switch {
	case err == nil:
		return filepath.Join(j.dir, local), nil
	case errors.Is(err, fs.ErrNotExist):
		return "", &api.Error{Status: http.StatusNotFound, Kind: api.InvalidRequest, Param: param, Code: "unknown_file", Message: fmt.Sprintf("%s: no file or folder %.80q below the folder of jobs", param, name)}
	}
	return "", &api.Error{Status: http.StatusForbidden, Kind: api.Permission, Param: param, Code: "outside", Message: fmt.Sprintf("%s: %.80q is not below the folder of jobs", param, name)}
}
