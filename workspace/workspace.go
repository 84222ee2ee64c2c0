package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
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
	Keys        []string           // files of public keys that are trusted for everything, instead of the trust files. Nil: the trust files
	Layout      string             // OCI layout that replaces the store. Empty: the home's store
	Offline     bool               // ask no registry
	PlainHTTP   []string           // hosts to use HTTP without TLS for, in addition to those of mm.yaml
	TLSLoopback bool               // use TLS for registries on this machine, too
	CAFile      string             // certificate authorities (PEM) in addition to the system's
	Timeout     time.Duration      // of a command's work at registries. 0: none while something moves
	Parallel    int                // blobs in flight at a time. 0: the client's choice
	Say         func(string)       // receives messages for the user. Nil: none
	Progress    func(remote.Event) // receives transfer events. Nil: none
	Version     string             // of mm, which evidence names
}

// Workspace is an open workspace. It is safe for concurrent use.
type Workspace struct {
	opt      Options
	home     string
	homeless error // why the home is missing; nil: it is not

	settings func() (home.Settings, error)
	judges   func() (*trust.Bench, error)
	store    func() (*registry.Store, error)
	client   func() (*remote.Client, error)

	warned sync.Once // that the home cannot be changed

	mu     sync.Mutex
	closes []func() error

	admitted func() // called between verification and use, by tests
}

// Files and folders of the home.
const (
	storeDir   = "store"
	cacheDir   = "cache"
	featureDir = "features"  // in cacheDir
	evalDir    = "eval"      // likewise
	skillDir   = "skills"    // in cacheDir
	textDir    = "sequences" // in cacheDir
	chatDir    = "chats"
	secretFile = "secret"
	keysDir    = "keys"
	scratchDir = "scratch"
	auditFile  = "audit.jsonl"
	aliasFile  = "aliases.json"
)

// Open opens a workspace. Everything is read and created at first use, so that
// an invalid mm.yaml stops only the operations that need it.
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
		if w.home, err = w.defaultHome(); err != nil {
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

// Close releases the resources of the workspace, the newest first.
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

// later registers fn for Close.
func (w *Workspace) later(fn func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closes = append(w.closes, fn)
}

// Home is the folder of the store, the keys and the trust file.
func (w *Workspace) Home() string { return w.home }

// Cache is the folder that remembers exported files. Empty: none can be kept.
func (w *Workspace) Cache() string { return w.cached() }

// FeatureDir is the folder of the cache of encoded inputs. Empty: none can be kept.
func (w *Workspace) FeatureDir() string { return w.cached(featureDir) }

// EvalDir is the folder of the cache of evaluations. Empty: none can be kept.
func (w *Workspace) EvalDir() string { return w.cached(evalDir) }

// SkillDir is the folder of compiled skills, the user's alone. Empty: none can be
// kept.
func (w *Workspace) SkillDir() string { return w.cached(skillDir) }

// KeyPrefix is the path of the key pair called name, without .key and .pub.
func (w *Workspace) KeyPrefix(name string) string { return filepath.Join(w.home, keysDir, name) }

// TrustFile is the user's trust file, which may be missing.
func (w *Workspace) TrustFile() string { return filepath.Join(w.home, home.TrustName) }

// AuditFile is the log of signing, transfers, verification and runs.
func (w *Workspace) AuditFile() string { return filepath.Join(w.home, auditFile) }

// StoreDir is the folder of the home's store, which need not exist.
func (w *Workspace) StoreDir() string { return filepath.Join(w.home, storeDir) }

// Settings are those of the anchor's mm.yaml.
func (w *Workspace) Settings() (home.Settings, error) { return w.settings() }

// Store is the store that is worked on, open until the workspace is closed. The
// home's is created at first use; a layout in its place must exist. If it cannot be
// changed, it is read-only.
func (w *Workspace) Store() (*registry.Store, error) {
	if w.storeFixed() != nil {
		return w.openOwn(true)
	}
	return w.store()
}

// errNoStore reports a store that is missing and cannot be created.
var errNoStore = errors.New("missing store")

// openOwn opens the home's store or the layout in its place.
func (w *Workspace) openOwn(readOnly bool) (*registry.Store, error) {
	dir, opt := w.StoreDir(), registry.Options{ReadOnly: readOnly}
	if w.opt.Layout != "" {
		dir, opt.MustExist = w.opt.Layout, true
	} else if readOnly && !loose.IsLayout(dir) {
		return nil, fmt.Errorf("%s: %w", dir, errNoStore)
	}
	s, err := registry.Open(dir, opt)
	if err == nil {
		w.later(s.Close)
		if w.opt.Layout == "" {
			s.KeepReserve()
		}
	}
	return s, err
}

// hasStore reports whether the home has a store, even a damaged one.
func (w *Workspace) hasStore() bool {
	if loose.IsLayout(w.StoreDir()) {
		return true
	}
	blobs, err := os.ReadDir(filepath.Join(w.StoreDir(), "blobs", "sha256"))
	return err == nil && len(blobs) > 0
}

// Rebuild replaces a missing or damaged index.json of the store.
func (w *Workspace) Rebuild(ctx context.Context) error {
	dir := cmp.Or(w.opt.Layout, w.StoreDir())
	if w.opt.Layout == "" && !w.hasStore() {
		return nil
	}
	refs, err := registry.Rebuild(ctx, dir)
	if err != nil || refs == nil {
		return err
	}
	again, err := w.pulledNames(ctx)
	w.say("wrote index.json of %s anew with %d names that its artifacts state and %d that the audit log has pulled; other names are lost", dir, len(refs), again)
	return err
}

// pulledNames restores the names of artifacts that were pulled according to the audit
// log, and returns their number.
func (w *Workspace) pulledNames(ctx context.Context) (n int, err error) {
	if w.opt.Layout != "" {
		return 0, nil
	}
	s, err := w.store()
	if err != nil {
		return 0, err
	}
	pulled := map[string]string{}
	if err := audit.Each(w.AuditFile(), func(e audit.Entry) error {
		if ref, err := abi.ParseRef(e.Ref); err == nil && e.Action == "pull" && e.Result == Outcome(nil) && ref.Tag != "" && ref.Digest == "" {
			pulled[e.Ref] = e.Digest
		}
		return nil
	}); err != nil {
		return 0, err
	}
	for _, ref := range slices.Sorted(maps.Keys(pulled)) {
		desc, err := s.Resolve(ctx, pulled[ref])
		if err != nil || !artifact.IsManifest(desc.MediaType) {
			continue // removed since
		}
		if _, err := s.Resolve(ctx, ref); err != nil && s.Tag(ctx, desc, ref) == nil {
			n++
		}
	}
	return n, nil
}

// Client returns the registry client, configured by options and settings.
func (w *Workspace) Client() (*remote.Client, error) { return w.client() }

func (w *Workspace) newClient() (*remote.Client, error) {
	set, err := w.settings()
	if err != nil {
		return nil, err
	}
	c, err := remote.New(remote.Options{
		PlainHTTP: w.plainHTTP(set),
		Parallel:  w.opt.Parallel, Progress: w.progress,
		TLSLoopback: w.opt.TLSLoopback, CAFile: w.opt.CAFile, Timeout: w.opt.Timeout,
	})
	if err == nil {
		w.later(func() error { c.Close(); return nil })
	}
	return c, err
}

// plainHTTP returns the hosts that the user selected for HTTP without TLS: those
// of the options and those of an mm.yaml in the home. A project's mm.yaml comes
// with the project, so it cannot lower the transport.
func (w *Workspace) plainHTTP(set home.Settings) []string {
	hosts := slices.Clone(w.opt.PlainHTTP)
	own, list := home.ReadSettings(w.home)
	if err := list.Err(); err != nil {
		w.say("warning: %v", err)
	}
	hosts = append(hosts, own.PlainHTTP...)
	for _, h := range set.PlainHTTP {
		if !slices.Contains(hosts, h) {
			w.say("warning: plain_http of %s is ignored: a project cannot select plain HTTP for %s; use --plain-http %s, or plain_http in %s",
				set.File, h, h, filepath.Join(w.home, home.ConfigName))
		}
	}
	return hosts
}

// progress passes a transfer event on, and a warning to the user.
func (w *Workspace) progress(e remote.Event) {
	switch {
	case e.Kind == remote.Warned:
		w.say("warning: %v", e.Err)
	case w.opt.Progress != nil:
		w.opt.Progress(e)
	}
}

func (w *Workspace) say(format string, args ...any) { w.opt.Say(fmt.Sprintf(format, args...)) }

// Record appends a line to the audit log. If that fails, the user is warned
// and work continues.
func (w *Workspace) Record(ctx context.Context, e audit.Entry) {
	if err := w.record(ctx, e); err != nil {
		w.say("warning: %v", err)
	}
}

// record appends a line to the audit log. A home that cannot be written has no log,
// which is not an error.
func (w *Workspace) record(ctx context.Context, e audit.Entry) error {
	if err := home.CanWrite(w.home); err != nil || w.homeless != nil {
		w.warnFixed(err)
		return nil
	}
	e.Time = time.Now().UTC().Format(time.RFC3339)
	return unrecorded(audit.Append(context.WithoutCancel(ctx), w.AuditFile(), e))
}

// recordable refuses an operation that must be in the audit log before it acts, if the
// log cannot be written: on a full disk, for example.
func (w *Workspace) recordable(ctx context.Context) error {
	if home.CanWrite(w.home) != nil || w.homeless != nil {
		return nil
	}
	return unrecorded(audit.Ready(ctx, w.AuditFile()))
}

func unrecorded(err error) error {
	if err == nil {
		return nil
	}
	return diag.Hinted(err, "free disk space, or repair the log (mm audit verify)")
}

// Outcome returns the text of an error for the audit log.
func Outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// CheckAudit checks the audit log against its hash chain, the record of its
// end and, if noted is not empty, the hash of a line that was noted elsewhere.
func (w *Workspace) CheckAudit(_ context.Context, noted string) (audit.Report, error) {
	r, err := audit.Check(w.AuditFile(), noted)
	if errors.Is(err, audit.ErrBroken) {
		return r, fault(diag.Corrupt, w.AuditFile()+": "+err.Error(), "the log was changed or damaged; compare it with a copy")
	}
	return r, err
}

// Blob reads a blob of the home's store by its SHA-256 in hex, at most limit
// bytes. If there is no such blob or no store, the error is fs.ErrNotExist.
func (w *Workspace) Blob(sha256 string, limit int64) ([]byte, error) {
	if !w.hasStore() {
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

// Accept accepts a project's trust file in its present content. See
// [trust.Accept].
func (w *Workspace) Accept(ctx context.Context, file string) (*trust.File, error) {
	return trust.Accept(ctx, w.home, file)
}

// Vouching returns the public keys each of which, alone, may sign the name.
// See [trust.Vouching].
func (w *Workspace) Vouching(name string, files []string, now time.Time) ([]*sign.PublicKey, error) {
	return trust.Vouching(cmp.Or(w.opt.Trust, w.TrustFile()), name, files, now)
}

// FolderTrust returns whose signatures over a folder are accepted. See [trust.ForFolder].
func (w *Workspace) FolderTrust(dir string, files []string, now time.Time) (sign.FolderTrust, error) {
	name, err := filepath.Abs(dir)
	if err != nil {
		return sign.FolderTrust{}, err
	}
	return trust.ForFolder(cmp.Or(w.opt.Trust, w.TrustFile()), "local/"+filepath.Base(name), files, now)
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
