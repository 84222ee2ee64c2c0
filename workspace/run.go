package workspace

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/loose"
)

// RunOptions select how an argument becomes a runnable build.
type RunOptions struct {
	Target    string              // of a build of several. Empty: the first that ships the core
	Function  string              // the part to run without the rest of the build. Empty: the build, or as the argument names it
	Resolve   ResolveOptions      // how the modules of a graph are found; its Claim holds for artifacts as well
	Exporters []assemble.Exporter // for graphs
	Ignore    []string            // keys of config.json of a folder of transformers that do not stop its conversion
	MMProj    string              // vision tower of a GGUF file
	AnyArch   bool                // GGUF architectures that mm's engine does not run are left to another engine
}

// Runnable returns a build for an argument:
//
//	p-lite:0.1.0, dist/p-lite, registry.example/team/p-lite:0.1.0   what [Workspace.Find] finds, admitted
//	p-lite.graph.yaml                                               assembled into the store without a name
//	p-lite:0.1.0/ocr, dist/p-lite/ocr, p-lite.graph.yaml/ocr        a function of one of these, without the rest
//	model.gguf, core-llm/, core-llm/module.yaml, best.safetensors   the user's own file, unverified
//	SmolLM2-135M/ with config.json, safetensors and tokenizer.json  the same, converted once
//
// A name in the store precedes a folder of that name: the one was released, the
// other is unverified.
func (w *Workspace) Runnable(ctx context.Context, arg string, opt RunOptions) (*builds.Build, error) {
	f, err := w.form(ctx, arg)
	if err != nil {
		return nil, err
	}
	if opt.Function != "" {
		return w.functionOf(ctx, arg, opt)
	}
	if f == loose.FormReference {
		build, function, err := w.splitFunction(ctx, arg)
		if err != nil {
			return nil, err
		}
		if opt.Function = function; function != "" {
			return w.functionOf(ctx, build, opt)
		}
	}
	var v *Verified
	switch f {
	case loose.FormReference:
		v, err = w.UseTarget(ctx, arg, opt.Target, opt.Resolve.Claim)
	case loose.FormGraph:
		v, err = w.graph(ctx, arg, opt)
	default:
		return w.asItStands(ctx, arg, f, opt)
	}
	if err != nil {
		return nil, err
	}
	return v.Build(ctx, opt.Target)
}

// graph assembles a graph and admits the build. The graph is the user's own file and
// unsigned, though its modules may be signed.
func (w *Workspace) graph(ctx context.Context, arg string, opt RunOptions) (*Verified, error) {
	if err := w.notStrict(arg, "mm assemble --sign makes a signed build of it, which runs by its name"); err != nil {
		return nil, err
	}
	made, err := w.Assemble(ctx, assemble.Options{Graph: arg, Target: opt.Target, KeepGoing: true, Untagged: true, Exporters: opt.Exporters}, opt.Resolve)
	if err != nil {
		return nil, err
	}
	v, err := w.Made(ctx, arg, made)
	if err == nil {
		err = w.record(ctx, audit.Entry{Action: "use-unsigned", Ref: home.Abs(arg), Digest: made.Digest, Result: "ok"})
	}
	return v, err
}

// form returns the form of an argument. With a layout in the options a name is
// always a reference.
func (w *Workspace) form(ctx context.Context, arg string) (loose.Form, error) {
	info, err := os.Stat(arg)
	if err != nil || strings.HasPrefix(arg, "oci:") || info.IsDir() && w.opt.Layout != "" {
		return loose.FormReference, nil
	}
	if info.IsDir() && w.stored(ctx, arg) {
		return loose.FormReference, nil
	}
	f, err := loose.FormOf(arg)
	if ref, bad := abi.ParseRef(arg); err != nil && info.IsDir() && bad == nil && ref.Host != "" {
		return loose.FormReference, nil
	}
	return f, err
}

// stored reports whether the home's store holds a name. It does not create the
// store.
func (w *Workspace) stored(ctx context.Context, arg string) bool {
	if w.opt.Layout == "" && !w.hasStore() {
		return false
	}
	_, err := w.findStored(ctx, arg)
	return err == nil
}

// absent returns the error for an argument that was not found: where it was
// looked for, and the nearest name.
func (w *Workspace) absent(ctx context.Context, arg string) error {
	place := w.StoreDir()
	if w.opt.Layout != "" {
		place = w.opt.Layout
	}
	detail, hint := fmt.Sprintf("%s is not in %s", arg, place), "mm ls lists what is there; mm pull fetches it"
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		return fault(diag.NoArtifact, arg+" is a folder, but not an OCI layout or a target's folder in one", "mm assemble --out makes layouts; mm module add puts a module's folder into the store")
	}
	if info, err := os.Stat(arg); err == nil && !info.IsDir() {
		return fault(diag.NoArtifact, arg+" is a file, but not an artifact or a model file that mm reads", "mm inspect reads ONNX and GGUF files; mm ls lists the artifacts of the store")
	}
	if err := remote.CheckSpelling(arg); err != nil {
		return err
	}
	if fileLike(arg) {
		detail = "there is no file or folder " + arg
		if _, err := abi.ParseRef(arg); err == nil {
			detail += ", and nothing of that name in " + place
		}
	}
	if near := w.nearest(ctx, arg); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fault(diag.NoArtifact, detail, hint)
}

// fileLike reports whether an argument is probably a path.
func fileLike(arg string) bool {
	if filepath.IsAbs(arg) || strings.HasPrefix(arg, ".") || strings.HasSuffix(arg, "/") {
		return true
	}
	return slices.Contains([]string{".gguf", ".yaml", ".yml", ".safetensors", ".json", ".onnx", ".bin", ".tflite"}, filepath.Ext(arg))
}

// maxNear bounds the names that are compared with a missing one.
const maxNear = 4096

// nearest returns the nearest name in the store or file in the folder, or the one name in
// the store that ends like a name without a host, or empty.
func (w *Workspace) nearest(ctx context.Context, arg string) string {
	dir, base := filepath.Split(arg)
	if entries, err := os.ReadDir(cmp.Or(dir, ".")); err == nil {
		var names []string
		for _, e := range entries[:min(len(entries), maxNear)] {
			names = append(names, e.Name())
		}
		if near, ok := diag.Nearest(strings.TrimSuffix(base, "/"), names); ok && (dir != "" || fileLike(arg)) {
			return dir + near
		}
	}
	if w.opt.Layout == "" && !w.hasStore() {
		return ""
	}
	s, err := w.store()
	if err != nil {
		return ""
	}
	tags, err := s.Tags(ctx)
	if err != nil {
		return ""
	}
	want, bad := abi.ParseRef(arg)
	var names, longer []string
	for _, t := range tags[:min(len(tags), maxNear)] {
		names = append(names, t.Ref)
		ref, err := abi.ParseRef(t.Ref)
		if err != nil || ref.Tag == "" {
			continue
		}
		if bare := ref.Bare().String(); !slices.Contains(names, bare) {
			names = append(names, bare)
			if bad == nil && want.Host+want.Path == "" && ref.Host+ref.Path != "" && ref.Name == want.Name {
				longer = append(longer, bare)
			}
		}
	}
	if len(longer) == 1 {
		return longer[0] + strings.TrimPrefix(arg, want.Name)
	}
	near, _ := diag.Nearest(arg, names)
	return near
}

// asItStands makes a build of the user's own file or folder, which was not
// released: it is unverified, which is reported, audited, and refused under
// strict trust. Nothing is stored.
func (w *Workspace) asItStands(ctx context.Context, path string, f loose.Form, opt RunOptions) (*builds.Build, error) {
	if err := w.mayStand(path, opt); err != nil {
		return nil, err
	}
	own := w.loose()
	own.Ignore, own.MMProj, own.AnyArch = opt.Ignore, opt.MMProj, opt.AnyArch
	b, err := own.Build(ctx, path, f)
	if err != nil {
		return nil, err
	}
	w.say("%s is run as it stands: unsigned", path)
	return b, w.record(ctx, audit.Entry{Action: "use-unsigned", Ref: home.Abs(path), Result: "ok"})
}

// mayStand refuses options that a local file cannot satisfy.
func (w *Workspace) mayStand(path string, opt RunOptions) error {
	switch {
	case opt.Target != "":
		return fault(diag.NoTarget, fmt.Sprintf("%q; %s is a model, not a build of targets", opt.Target, path), "leave --target out")
	case opt.Resolve.Expect != "":
		return fmt.Errorf("%s is a file or a folder, which cannot be a mirror", path)
	case len(w.opt.Keys) > 0:
		return fault(diag.Unsigned, path+" is run as it stands, and no key can have signed it", "leave --key out; or mm module add --sign, and run it by its name")
	}
	return w.notStrict(path, "mm module import and mm module add --sign make a signed module of it")
}

// notStrict refuses the user's own file under strict trust.
func (w *Workspace) notStrict(path, hint string) error {
	b, err := w.judges()
	if err != nil {
		return err
	}
	if b.Strict {
		return fault(diag.Unsigned, path+" is run as it stands, which strict trust does not allow ("+strings.Join(b.Files(), ", ")+")", hint)
	}
	return nil
}

// passing returns the path of a new [Workspace.scratch].
func (w *Workspace) passing() (string, error) {
	dir, err := w.scratch()
	if err != nil {
		return "", err
	}
	return dir.Path(), nil
}

// Function opens a function ([loose.IsFunction]) as it is on disk. It returns
// nil for anything else, and for names in the store.
func (w *Workspace) Function(ctx context.Context, arg string, opt RunOptions) (*loose.Function, error) {
	f, err := w.form(ctx, arg)
	if err != nil || f != loose.FormFunction {
		return nil, err
	}
	if err := w.mayStand(arg, opt); err != nil {
		return nil, err
	}
	fn, err := w.loose().Function(ctx, arg)
	if err != nil {
		return nil, err
	}
	w.say("%s is run as it stands: unsigned", arg)
	return fn, w.record(ctx, audit.Entry{Action: "use-unsigned", Ref: home.Abs(arg), Result: "ok"})
}

// loose returns the opener of the user's own files.
func (w *Workspace) loose() *loose.Opener {
	return &loose.Opener{Home: w.home, Cache: filepath.Join(w.home, cacheDir), Scratch: w.scratch, TempDir: w.passing, Say: w.say}
}
