package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/loose"
	"mm-abi.org/mm/workspace/trust"
)

// Options for [Open]. The zero value is the user's home and the current
// folder's settings.
type Options struct {
	Dir         string             // the anchor of mm.yaml: the graph's folder, the folder worked on. Empty: the current one
	Home        string             // store, keys, trust file. Empty: [DefaultHome]
	Trust       string             // trust file that decides alone. Empty: the user's, narrowed by the project's
	Keys        []string           // files of public keys that are trusted for everything, and nobody else. Nil: the trust files
	Layout      string             // OCI layout that stands for the store. Empty: the home's store
	Offline     bool               // ask no registry
	PlainHTTP   []string           // hosts that speak HTTP without TLS, beside those of mm.yaml
	TLSLoopback bool               // speak TLS to registries on this machine, too
	CAFile      string             // certificate authorities (PEM) that count beside the system's
	Timeout     time.Duration      // of a command's work at registries. 0: none while something moves
	Parallel    int                // blobs in flight at a time. 0: the client's choice
	Say         func(string)       // told what people should know. Nil: nobody
	Progress    func(remote.Event) // told what moves. Nil: nobody
}

// Workspace is an open workspace. It is safe for concurrent use.
type Workspace struct {
	opt  Options
	home string

	settings func() (home.Settings, error)
	judges   func() (*trust.Bench, error)
	store    func() (*registry.Store, error)
	client   func() (*remote.Client, error)

	mu     sync.Mutex
	closes []func() error

	admitted func() // called between verification and use, by tests
}

// Files and folders of the home.
const (
	storeDir   = "store"
	cacheDir   = "cache"
	featureDir = "features" // in cacheDir
	skillDir   = "skills"   // in cacheDir
	keysDir    = "keys"
	scratchDir = "scratch"
	auditFile  = "audit.jsonl"
	aliasFile  = "aliases.json"
)

// Open opens a workspace. Nothing is read or made before it is needed, so that
// a fault of mm.yaml stops only what asks it.
func Open(opt Options) (*Workspace, error) {
	w := &Workspace{opt: opt, home: opt.Home}
	if w.opt.Dir == "" {
		w.opt.Dir = "."
	}
	if w.opt.Say == nil {
		w.opt.Say = func(string) {}
	}
	if w.home == "" {
		var err error
		if w.home, err = DefaultHome(); err != nil {
			return nil, err
		}
	}
	w.settings = sync.OnceValues(w.loadSettings)
	w.judges = sync.OnceValues(func() (*trust.Bench, error) {
		return trust.NewBench(trust.Options{Home: w.home, Keys: w.opt.Keys, File: w.opt.Trust, Project: w.projectTrust, Say: w.say})
	})
	w.store = sync.OnceValues(w.openStore)
	w.client = sync.OnceValues(w.newClient)
	return w, nil
}

// Close frees what the workspace opened, the newest first.
func (w *Workspace) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	for i := len(w.closes) - 1; i >= 0; i-- {
		err = errors.Join(err, w.closes[i]())
	}
	w.closes = nil
	return err
}

// later lets Close call fn.
func (w *Workspace) later(fn func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closes = append(w.closes, fn)
}

// Home is the folder of the store, the keys and the trust file.
func (w *Workspace) Home() string { return w.home }

// Cache is the folder that remembers exported files.
func (w *Workspace) Cache() string { return filepath.Join(w.home, cacheDir) }

// FeatureDir is the folder that remembers what inputs came to.
func (w *Workspace) FeatureDir() string { return filepath.Join(w.home, cacheDir, featureDir) }

// SkillDir is the folder of compiled skills, the user's alone.
func (w *Workspace) SkillDir() string { return filepath.Join(w.home, cacheDir, skillDir) }

// KeyPrefix is the path of the key pair called name, without .key and .pub.
func (w *Workspace) KeyPrefix(name string) string { return filepath.Join(w.home, keysDir, name) }

// TrustFile is the user's own trust file, which need not exist.
func (w *Workspace) TrustFile() string { return filepath.Join(w.home, home.TrustName) }

// AuditFile is the log of what was signed, moved, verified and run.
func (w *Workspace) AuditFile() string { return filepath.Join(w.home, auditFile) }

// StoreDir is the folder of the home's store, which need not exist.
func (w *Workspace) StoreDir() string { return filepath.Join(w.home, storeDir) }

// Settings are those of the anchor's mm.yaml.
func (w *Workspace) Settings() (home.Settings, error) { return w.settings() }

// Store is the store that is worked on, open until the workspace is closed. The
// home's is created at first use; a layout in its place must exist.
func (w *Workspace) Store() (*registry.Store, error) { return w.store() }

func (w *Workspace) openStore() (*registry.Store, error) {
	dir, opt := w.StoreDir(), registry.Options{}
	if w.opt.Layout != "" {
		dir, opt.MustExist = w.opt.Layout, true
	}
	s, err := registry.Open(dir, opt)
	if err == nil {
		w.later(s.Close)
	}
	return s, err
}

// Client speaks to registries as flags and settings say.
func (w *Workspace) Client() (*remote.Client, error) { return w.client() }

func (w *Workspace) newClient() (*remote.Client, error) {
	set, err := w.settings()
	if err != nil {
		return nil, err
	}
	c, err := remote.New(remote.Options{
		PlainHTTP: append(append([]string{}, set.PlainHTTP...), w.opt.PlainHTTP...),
		Parallel:  w.opt.Parallel, Progress: w.opt.Progress,
		TLSLoopback: w.opt.TLSLoopback, CAFile: w.opt.CAFile, Timeout: w.opt.Timeout,
	})
	if err == nil {
		w.later(func() error { c.Close(); return nil })
	}
	return c, err
}

func (w *Workspace) say(format string, args ...any) { w.opt.Say(fmt.Sprintf(format, args...)) }

// Record writes a line of the audit log. Work is not stopped by a log that
// cannot be written, but the user is told.
func (w *Workspace) Record(ctx context.Context, e audit.Entry) {
	e.Time = time.Now().UTC().Format(time.RFC3339)
	if err := audit.Append(context.WithoutCancel(ctx), w.AuditFile(), e); err != nil {
		w.say("warning: %v", err)
	}
}

// Outcome is an error as the audit log tells it.
func Outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// CheckAudit holds the audit log against its chain, the record of its end and,
// where one is given, the hash of a line that was noted elsewhere.
func (w *Workspace) CheckAudit(_ context.Context, noted string) (audit.Report, error) {
	r, err := audit.Check(w.AuditFile(), noted)
	if errors.Is(err, audit.ErrBroken) {
		return r, fault(diag.Corrupt, w.AuditFile()+": "+err.Error(), "somebody changed the log, or the disk did; compare it with a copy")
	}
	return r, err
}

// Served is the store that a registry shows: the home's, or the layout at dir,
// which is made where there is none.
func (w *Workspace) Served(dir string, readOnly bool) (*registry.Store, error) {
	opt := registry.Options{ReadOnly: readOnly}
	if dir == "" { // mm's own may keep a journal; a layout's index is for others to read
		dir, opt.Journal = w.StoreDir(), true
	}
	s, err := registry.Open(dir, opt)
	if err == nil {
		w.later(s.Close)
	}
	return s, err
}

// Blob reads a blob of the home's store by its SHA-256 in hex, at most limit
// bytes. fs.ErrNotExist is that the store has none, or that there is no store.
func (w *Workspace) Blob(sha256 string, limit int64) ([]byte, error) {
	if !loose.IsLayout(w.StoreDir()) {
		return nil, fs.ErrNotExist
	}
	return fsx.ReadFile(filepath.Join(w.StoreDir(), "blobs", "sha256", sha256), limit)
}

func (w *Workspace) loadSettings() (home.Settings, error) {
	s, passed, list := home.LoadSettings(w.opt.Dir)
	for _, p := range passed {
		w.say("warning: %v", p)
	}
	return s, list.Err()
}

// projectTrust returns the trust file that the settings name.
func (w *Workspace) projectTrust() (string, error) {
	set, err := w.settings()
	return set.Trust, err
}

// Accept records that the user lets a project's trust file, in its present
// content, decide for the project. See [Accept].
func (w *Workspace) Accept(ctx context.Context, file string) (*trust.File, error) {
	return trust.Accept(ctx, w.home, file)
}

// Vouching returns the public keys each of which, alone, may sign the name. See
// [Vouching].
func (w *Workspace) Vouching(name string, files []string, now time.Time) ([]*sign.PublicKey, error) {
	return trust.Vouching(w.home, name, files, now)
}

// DefaultHome is the user's folder of mm: MM_HOME, or the system's place for a
// program's data.
func DefaultHome() (string, error) {
	if dir := os.Getenv("MM_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the home folder: %w (set MM_HOME)", err)
	}
	switch runtime.GOOS {
	case "windows":
		if dir := os.Getenv("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, "mm"), nil
		}
		return filepath.Join(user, "AppData", "Local", "mm"), nil
	case "darwin":
		return filepath.Join(user, "Library", "Application Support", "mm"), nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "mm"), nil
	}
	return filepath.Join(user, ".local", "share", "mm"), nil
}
