package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/builds/bom"
	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/hub"
	"mm-abi.org/mm/registry/remote"
)

// PublishOptions for [Workspace.Publish].
type PublishOptions struct {
	Target  string // of a build with several. Empty: the only one
	Message string // of the commit
	Private bool   // create the repository private
	Request bool   // open a pull request
	DryRun  bool   // list the files, send nothing
	Card    []byte // README.md. Nil: the model card
}

// Published is the result of [Workspace.Publish].
type Published struct {
	Ref    hub.Ref
	Digest string // of the manifest
	Files  []hub.File
	Report hub.PushReport
}

// Publish sends the files of one target to a repository of a model hub. An artifact
// without a license is refused, since a hub shows it as not usable.
func (w *Workspace) Publish(ctx context.Context, arg, dest string, opt PublishOptions) (*Published, error) {
	to, err := hub.ParseRef(dest)
	if err != nil {
		return nil, err
	}
	at, one, err := w.storedTarget(ctx, arg, opt.Target)
	if err != nil {
		return nil, err
	}
	if one.Artifact.Annotations[ocispec.AnnotationLicenses] == "" {
		return nil, fault(diag.Unlicensed, arg+" states no license", "add license: to its manifest or graph and assemble it again")
	}
	c, err := w.card(ctx, at, one)
	if err != nil {
		return nil, err
	}
	written, err := c.Files()
	if err != nil {
		return nil, err
	}
	if license, err := lawful(ctx, at, one); err != nil {
		return nil, err
	} else if license != nil {
		written[bom.LicenseFile] = license
	}
	if opt.Card != nil {
		written[card.Readme] = opt.Card
	}
	p := &Published{Ref: to, Digest: one.Descriptor.Digest.String(), Files: hubFiles(ctx, at, one, written)}
	if opt.DryRun {
		return p, nil
	}
	if err := w.recordable(ctx); err != nil {
		return nil, err
	}
	if err := intact(ctx, at.store, at.tree, remote.PullOptions{}); err != nil {
		return nil, explainBytes(err, at.store)
	}
	client, err := hubClient()
	if err != nil {
		return nil, err
	}
	report, err := client.Push(ctx, to, p.Files, hub.PushOptions{Message: opt.Message, Private: opt.Private, Request: opt.Request, Tell: func(f hub.File) {
		w.say("sending %s", f.Path)
	}})
	w.Record(ctx, audit.Entry{Action: "push", Ref: to.String(), Digest: p.Digest, Result: Outcome(err)})
	if report != nil {
		p.Report = *report
	}
	return p, err
}

// storedTarget finds an artifact in the store or a layout, and the part of one target.
func (w *Workspace) storedTarget(ctx context.Context, arg, target string) (*Located, artifact.Part, error) {
	at, err := w.Find(ctx, arg)
	if err != nil {
		return nil, artifact.Part{}, err
	}
	if at.store == nil {
		return nil, artifact.Part{}, fault(diag.NoArtifact, arg+" is not in "+w.StoreDir(), "mm pull fetches it")
	}
	if _, err := at.identify(ctx); err != nil {
		return nil, artifact.Part{}, err
	}
	one, err := targetOf(at.tree, target)
	return at, one, err
}

// targetOf returns the part of a target, or the only one.
func targetOf(t *artifact.Tree, target string) (artifact.Part, error) {
	if err := checkTarget(t, target); err != nil {
		return artifact.Part{}, err
	}
	var names []string
	for _, p := range t.Parts {
		if p.Target == target || target == "" && len(t.Parts) == 1 {
			return p, nil
		}
		names = append(names, p.Target)
	}
	return artifact.Part{}, fmt.Errorf("the build has %d targets: choose one with --target (%s)", len(names), strings.Join(names, ", "))
}

// MaxCard limits the card of an artifact.
const MaxCard = 1 << 20

func checkCard(size int64) error {
	if size > MaxCard {
		return fmt.Errorf("got %d bytes, limit %d", size, MaxCard)
	}
	return nil
}

// hubFiles returns the files of a target and written ones, in order of their paths.
func hubFiles(ctx context.Context, at *Located, one artifact.Part, written map[string][]byte) []hub.File {
	files := map[string]hub.File{}
	for _, l := range one.Artifact.Layers {
		d := l.Descriptor
		files[l.Path] = hub.File{Path: l.Path, Size: d.Size, SHA256: d.Digest.Encoded(), Open: func() (io.ReadCloser, error) { return at.store.Fetch(ctx, d) }}
	}
	for name, text := range written {
		sum := sha256.Sum256(text)
		files[name] = hub.File{Path: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }}
	}
	out := make([]hub.File, 0, len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out = append(out, files[name])
	}
	return out
}

// hubClient returns a client with the endpoint and the token of the environment, as
// the hub's own tools read them.
func hubClient() (*hub.Client, error) {
	token := os.Getenv("HF_TOKEN")
	if token == "" {
		var err error
		if token, err = hubToken(); err != nil {
			return nil, err
		}
	}
	return hub.New(hub.Options{Endpoint: os.Getenv("HF_ENDPOINT"), Token: strings.TrimSpace(token)})
}

// maxToken limits the file of a token.
const maxToken = 4 << 10

// hubToken reads the token that a login of the hub's tools stored, if any.
func hubToken() (string, error) {
	file := os.Getenv("HF_TOKEN_PATH")
	if home := os.Getenv("HF_HOME"); file == "" && home != "" {
		file = filepath.Join(home, "token")
	}
	if user, err := os.UserHomeDir(); file == "" && err == nil {
		file = filepath.Join(user, ".cache", "huggingface", "token")
	}
	if file == "" {
		return "", nil
	}
	data, err := fsx.ReadFile(file, maxToken)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading the hub's token: %w", err)
	}
	return string(data), nil
}

// FetchOptions for [Workspace.FetchHub].
type FetchOptions struct {
	Out     string   // folder. Empty: the repository's name in the current folder
	Include []string // patterns of files
}

// Fetched is the result of [Workspace.FetchHub].
type Fetched struct {
	Dir    string
	Report hub.PullReport
	Next   string // the command that runs the files. Empty: none
}

// FetchHub fetches files of a repository of a model hub into a folder. They are the
// user's own files: checked against the hub's listing, not signed.
func (w *Workspace) FetchHub(ctx context.Context, arg string, opt FetchOptions) (*Fetched, error) {
	r, err := hub.ParseRef(arg)
	if err != nil {
		return nil, err
	}
	client, err := hubClient()
	if err != nil {
		return nil, err
	}
	if opt.Out == "" {
		opt.Out = path.Base(r.Repository)
	}
	report, err := client.Pull(ctx, r, opt.Out, hub.PullOptions{Include: opt.Include, Tell: func(f hub.Entry, done bool) {
		if !done {
			w.say("receiving %s", f.Path)
		}
	}})
	e := audit.Entry{Action: "pull", Ref: r.String(), Result: Outcome(err)}
	if report != nil && report.Tree != nil {
		e.Digest = "sha1:" + report.Tree.Commit
	}
	w.Record(ctx, e)
	if err != nil {
		return nil, err
	}
	return &Fetched{Dir: opt.Out, Report: *report, Next: runFetched(opt.Out, report.Files)}, nil
}

// runFetched returns the command that runs a fetched model.
func runFetched(dir string, files []hub.Entry) string {
	model, folder := "", false
	for _, f := range files {
		switch name := path.Base(f.Path); {
		case strings.HasSuffix(name, ".gguf") && !strings.Contains(strings.ToLower(name), "mmproj") && model == "":
			model = filepath.Join(dir, filepath.FromSlash(f.Path))
		case f.Path == "config.json":
			folder = true
		}
	}
	if model == "" && folder {
		model = dir
	}
	if model == "" {
		return ""
	}
	return "mm run " + model
}
