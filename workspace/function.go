package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/loose"
)

// splitFunction splits BUILD/FUNCTION. The function is empty if the argument is a
// reference, a folder of a target, or not of this form. It refuses a name that means
// two things.
func (w *Workspace) splitFunction(ctx context.Context, arg string) (build, function string, err error) {
	build, function = splitLast(arg)
	if function == "" || !abi.ValidName(function) {
		return "", "", nil
	}
	path, layout := strings.CutPrefix(build, "oci:")
	if info, err := os.Stat(path); err == nil {
		path, function, err = splitPath(path, function, info)
		return path, function, err
	}
	if layout { // oci:DIR:NAME:TAG/FUNCTION
		return build, function, nil
	}
	ref, err := abi.ParseRef(build)
	if err != nil {
		return "", "", nil
	}
	if ref.Tag != "" || ref.Digest != "" || ref.Constraint != "" {
		return build, function, nil
	}
	if !w.stored(ctx, build) {
		return "", "", nil
	}
	if !w.stored(ctx, arg) {
		return build, function, nil
	}
	if a := w.assemblyOf(ctx, build); a != nil && a.Only(function) != nil {
		return "", "", diag.Hinted(fmt.Errorf("%s is ambiguous: a name in the store, and the function %s of %s", arg, function, build), fmt.Sprintf("write %s:VERSION for the name, %s:VERSION/%s for the function", arg, build, function))
	}
	return "", "", nil
}

// splitLast splits a path before its last element.
func splitLast(arg string) (dir, base string) {
	i := strings.LastIndexByte(arg, '/')
	if i <= 0 {
		return "", ""
	}
	return arg[:i], arg[i+1:]
}

// splitPath splits GRAPH/FUNCTION and LAYOUT/FUNCTION.
func splitPath(path, function string, info os.FileInfo) (string, string, error) {
	if !info.IsDir() {
		return path, function, nil
	}
	target := filepath.Join(path, function)
	layout := loose.IsLayout(path)
	if !home.Exists(target) {
		if layout {
			return path, function, nil
		}
		return "", "", nil
	}
	if a, err := assemblyIn(target); layout && err == nil && a.Only(function) != nil && len(a.Parts()) > 1 {
		return "", "", diag.Hinted(fmt.Errorf("%s is ambiguous: a target, and a function of %s", target, a.Name), fmt.Sprintf("write oci:%s:%s:%s/%s for the function; --target %s selects the target", path, a.Name, a.Version, function, function))
	}
	return "", "", nil
}

// assemblyOf returns the assembly of a build of the store, or nil.
func (w *Workspace) assemblyOf(ctx context.Context, arg string) *builds.Assembly {
	at, err := w.findStored(ctx, arg)
	if err != nil {
		return nil
	}
	if _, err := at.identify(ctx); err != nil {
		return nil
	}
	v := &Verified{at: at, w: w}
	for _, p := range at.tree.Parts {
		if a, err := v.assembly(ctx, p.Artifact); err == nil && len(a.Functions()) > 0 {
			return a
		}
	}
	return nil
}

// functionOf returns the function of the options as a build without a core.
func (w *Workspace) functionOf(ctx context.Context, arg string, opt RunOptions) (*builds.Build, error) {
	f, err := w.form(ctx, arg)
	if err != nil {
		return nil, err
	}
	var v *Verified
	switch f {
	case loose.FormReference:
		v, err = w.UseTarget(ctx, arg, opt.Target, opt.Resolve.Claim)
	case loose.FormGraph:
		v, err = w.graph(ctx, arg, opt)
	default:
		return nil, fault(diag.NoArtifact, fmt.Sprintf("%s is a model, not a build with a function %s", arg, opt.Function), "mm run "+arg+" runs it")
	}
	if err != nil {
		return nil, err
	}
	return v.Function(ctx, opt.Target, opt.Function)
}

// Function returns one function of the artifact as a build without a core: of the
// target, or of the first that ships it.
func (v *Verified) Function(ctx context.Context, target, name string) (*builds.Build, error) {
	if target == "" {
		target = v.at.target
	}
	if _, err := v.at.identify(ctx); err != nil {
		return nil, err
	}
	var have, targets []string
	for _, p := range v.at.tree.Parts {
		if target != "" && p.Target != target && v.at.tree.Index != nil {
			targets = append(targets, p.Target)
			continue
		}
		a, err := v.assembly(ctx, p.Artifact)
		if err != nil {
			return nil, err
		}
		if a.Only(name) != nil {
			return v.build(ctx, p.Artifact, name)
		}
		for _, f := range a.Functions() {
			have = append(have, f.Name)
		}
	}
	if len(targets) == len(v.at.tree.Parts) {
		return nil, noTarget(target, targets)
	}
	return nil, noFunction(v.Ref, name, have)
}

// noFunction reports an unknown function, with those of the build.
func noFunction(ref, name string, have []string) error {
	slices.Sort(have)
	have = slices.Compact(have)
	hint := "it has none; mm inspect lists its parts"
	if len(have) > 0 {
		hint = "it has " + strings.Join(have, ", ")
	}
	return fault(diag.NoArtifact, fmt.Sprintf("%s ships no function %s", ref, name), diag.Suggest(name, have, hint))
}
