package modules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
)

// check reports faults that the schema cannot express.
func (m *Manifest) check() diag.List {
	var list diag.List
	if m.License == "" {
		list.Warn(diag.NoLicense, m.Pos("/name"), m.ID(), "add license: with an SPDX expression, such as Apache-2.0")
	}
	m.checkSpelling(&list)
	m.checkABI(&list)
	m.checkPorts(&list)
	m.checkTokens(&list)
	m.checkRuntime(&list)
	m.checkListed(&list)
	m.checkBlocks(&list)
	m.checkText(&list)
	m.checkSpeech(&list)
	m.checkLoop(&list)
	m.checkFigures(&list)
	return list
}

// checkABI reports keys that MM-ABI 1.2 added in a manifest that declares less.
func (m *Manifest) checkABI(list *diag.List) {
	if m.ABI != abi.V1_0 && m.ABI != abi.V1_1 {
		return
	}
	newer := func(ptr, key string) {
		list.Add(diag.NeedsABI, m.Pos(ptr), key, "use abi: "+string(abi.V1_2))
	}
	if m.Sequence != nil {
		newer("/sequence", "sequence")
	}
	if m.Confidence != nil {
		newer("/confidence", "confidence")
	}
	if m.Text != nil {
		newer("/text", "text")
	}
	if m.Speech != nil {
		newer("/speech", "speech")
	}
	if m.Loop != nil {
		newer("/loop", "loop")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Preprocess)) {
		spec := m.Preprocess[name]
		for key, set := range map[string]bool{"tiles": spec.Tiles != nil, "fit": spec.Fit != nil, "crop_round": spec.CropRound != "", "span": spec.Span != nil} {
			if set {
				newer("/preprocess", "preprocess."+key)
			}
		}
	}
}

func (m *Manifest) checkSpelling(list *diag.List) {
	old, hasOld := m.Params["T_cap"]
	now, hasNow := m.Params["t_cap"]
	if m.Type != abi.Projector || !hasOld {
		return
	}
	if hasNow && old != now {
		list.Add(diag.PortConflict, m.Pos("/params/t_cap"), fmt.Sprintf("T_cap is %v, t_cap is %v", old, now), "keep t_cap")
	}
	if m.ABI != abi.V1_0 {
		list.Warn(diag.OldSpelling, m.doc.KeyPos("/params/T_cap"), "T_cap in params", "write t_cap")
	}
}

// checkPorts binds every dimension of the module's ports.
func (m *Manifest) checkPorts(list *diag.List) {
	var b abi.Binding
	for _, f := range m.Bind(&b) {
		list.Add(diag.PortConflict, m.Pos("/params"), f.Error(), "use equal values in params and caps")
	}
	for _, side := range []struct {
		key   string
		ports []abi.Port
	}{{"inputs", m.Inputs}, {"outputs", m.Outputs}} {
		seen := map[string]bool{}
		for i, p := range side.ports {
			if seen[p.Name] {
				list.Add(diag.RepeatedItem, m.Pos(pointer(side.key, i)), fmt.Sprintf("%s: duplicate port %q", side.key, p.Name), "give each port a unique name")
			}
			seen[p.Name] = true
		}
	}
	if m.Type != abi.Projector {
		return
	}
	limit := int64(m.TCap())
	for i, p := range m.Outputs {
		if len(p.Shape) == 0 {
			continue
		}
		if n := p.Shape[0].Size; limit > 0 && n > limit {
			list.Add(diag.CapExceeded, m.Pos(pointer("outputs", i, "shape", 0)), fmt.Sprintf("%s has %d vectors, T_cap is %d", p.Name, n, limit), "lower the shape or raise T_cap")
		}
		width := p.Shape[len(p.Shape)-1]
		want, _ := m.Params.Int("d_model")
		want = m.VectorWidth(want)
		if width.Name != "d_model" && width.Size != want {
			list.Add(diag.PortConflict, m.Pos(pointer("outputs", i, "shape", len(p.Shape)-1)), fmt.Sprintf("width of %s is %s, params.d_model is %d", p.Name, width, want), "the last dimension of a projector's output is d_model")
		}
	}
}

func (m *Manifest) checkTokens(list *diag.List) {
	if m.Tokens == nil {
		return
	}
	c := m.Contract()
	if len(c.SpecialTokens) > c.VocabSize {
		list.Add(diag.BadTokens, m.Pos("/tokens"), fmt.Sprintf("%d special tokens, vocab_size is %d", len(c.SpecialTokens), c.VocabSize), "")
	}
	for _, mod := range []abi.Modality{abi.Image, abi.Audio, abi.Video} {
		if n, ok := m.Caps.Int(string(mod)); ok && n > int64(c.MaxSeq) {
			list.Add(diag.CapExceeded, m.Pos("/caps/"+string(mod)), fmt.Sprintf("the cap of %s is %d, max_seq is %d", mod, n, c.MaxSeq), "lower the cap or raise max_seq")
		}
	}
}

func (m *Manifest) checkRuntime(list *diag.List) {
	if m.Runtime != nil {
		n := len(m.Runtime.Programs())
		for _, s := range []string{m.Runtime.Container, m.Runtime.Builtin, m.Runtime.Agent} {
			if s != "" {
				n++
			}
		}
		if n != 1 {
			list.Add(diag.MissingKey, m.Pos("/runtime"), fmt.Sprintf("runtime has %d engines, want 1", n), "set one of container, wasm, starlark, python, builtin, process, mcp, agent")
		}
		m.checkAgent(list)
		checkLimits(m, "/runtime/limits", m.Runtime.Limits, list)
	}
	checkLimits(m, "/limits", m.Limits, list)
}

// checkAgent checks the ports of an agent.
func (m *Manifest) checkAgent(list *diag.List) {
	if m.Runtime.Agent == "" {
		return
	}
	takes := slices.ContainsFunc(m.Inputs, func(p abi.Port) bool { return p.Name == "prompt" && p.Type == "str" && !p.Optional })
	gives := slices.ContainsFunc(m.Outputs, func(p abi.Port) bool { return p.Name == "answer" && p.Type == "str" })
	if !takes || !gives {
		list.Add(diag.MissingKey, m.Pos("/runtime/agent"), "an agent requires an input prompt and an output answer, both of type str", "inputs: [{name: prompt, type: str}], outputs: [{name: answer, type: str}]")
	}
}

func checkLimits(m *Manifest, ptr string, l *Limits, list *diag.List) {
	if l != nil && l.Mem != "" && l.MemMB != 0 {
		list.Add(diag.BadLimit, m.Pos(ptr+"/mem_mb"), fmt.Sprintf("conflicting limits: mem is %s, mem_mb is %d", l.Mem, l.MemMB), "remove one of them")
	}
}

// checkListed checks that the files list contains every exported file.
func (m *Manifest) checkListed(list *diag.List) {
	if m.Files == nil {
		return
	}
	listed := map[string]bool{}
	for i, f := range m.Files {
		if listed[f.Path] {
			list.Add(diag.RepeatedItem, m.Pos(pointer("files", i)), fmt.Sprintf("duplicate file %q", f.Path), "remove the duplicate")
		}
		listed[f.Path] = true
	}
	for _, format := range sortedKeys(m.Export) {
		for _, path := range m.Export[format].Files() {
			if !listed[path] {
				list.Add(diag.FileMissing, m.PathPos(path), fmt.Sprintf("%q is not in files", path), "add it to files with its sha256 and size")
			}
		}
	}
	for _, path := range append(m.LabelFiles(), m.BlockFiles()...) {
		if !listed[path] {
			list.Add(diag.FileMissing, m.PathPos(path), fmt.Sprintf("%q is not in files", path), "add it to files with its sha256 and size")
		}
	}
}

// Paths lists the files of the module without duplicates: module.yaml, then the
// exported files, the card, other listed files, and the license and notice files of its
// folder, sorted.
func (m *Manifest) Paths() []string {
	set := map[string]bool{}
	for _, e := range m.Export {
		for _, p := range e.Files() {
			set[p] = true
		}
	}
	for _, f := range m.Files {
		set[f.Path] = true
	}
	for _, p := range append(append(m.LabelFiles(), m.BlockFiles()...), m.Card, m.ChatTemplate) {
		if p != "" {
			set[p] = true
		}
	}
	if r := m.Runtime; r != nil {
		for _, p := range r.Programs() {
			set[p] = true
		}
	}
	for _, p := range m.legal {
		set[p] = true
	}
	delete(set, FileName)
	return append([]string{FileName}, slices.Sorted(maps.Keys(set))...)
}

// PathPos returns the position of a file in the manifest: in export, otherwise in
// files, card, chat_template or runtime.
func (m *Manifest) PathPos(path string) diag.Pos {
	for _, format := range sortedKeys(m.Export) {
		at := pointer("export", string(format))
		if e := m.Export[format]; e.Path == path {
			if m.doc != nil && m.doc.Has(at+"/path") {
				at += "/path"
			}
			return m.Pos(at)
		} else if i := slices.Index(e.With, path); i >= 0 {
			return m.Pos(at + pointer("with", i))
		}
	}
	for i, f := range m.Files {
		if f.Path == path {
			return m.Pos(pointer("files", i, "path"))
		}
	}
	named := map[string]string{m.Card: "/card", m.ChatTemplate: "/chat_template"}
	for _, name := range sortedKeys(m.Postprocess) {
		if p := m.Postprocess[name]; p.CTC != nil {
			named[p.CTC.Labels] = pointer("postprocess", name, "ctc", "labels")
		} else if p.Labels != nil {
			named[p.Labels.File] = pointer("postprocess", name, "labels", "file")
		}
	}
	if r := m.Runtime; r != nil {
		for key, p := range r.Programs() {
			if named[p] = "/runtime/" + key; key == "mcp" {
				named[p] += "/command"
			}
		}
	}
	return m.Pos(named[path])
}

// CheckFiles compares the folder with the manifest: every file of Paths must be a
// regular file in the folder, and must match the size and SHA-256 in the files
// list.
func (m *Manifest) CheckFiles(ctx context.Context) diag.List {
	var list diag.List
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		list.Add(diag.Unreadable, diag.Pos{File: m.dir}, err.Error(), "")
		return list
	}
	defer root.Close()
	declared := map[string]int{}
	for i, f := range m.Files {
		declared[f.Path] = i
	}
	for _, path := range m.Paths() {
		if ctx.Err() != nil {
			break
		}
		i, listed := declared[path]
		pos := m.PathPos(path)
		sum, size, err := hashFile(root, path, listed)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			list.Add(diag.FileMissing, pos, fmt.Sprintf("%s: %q does not exist in %s", m.ID(), path, m.dir), "add the file or correct the name")
		case err != nil:
			list.Add(diag.FileMissing, pos, fmt.Sprintf("%q: %v", path, err), outside(m.dir, path))
		case listed && (size != m.Files[i].Size || sum != m.Files[i].SHA256):
			list.Add(diag.FileDiffers, m.Pos(pointer("files", i)), fmt.Sprintf("%q: got %d bytes, sha256 %s, want %d, %s", path, size, sum, m.Files[i].Size, m.Files[i].SHA256), remedy(root, path, m.Files[i]))
		}
	}
	return list
}

// hashFile opens the regular file path below root and returns its size, and with
// want its SHA-256.
func hashFile(root *os.Root, path string, want bool) (sum string, size int64, err error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is refused without waiting
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() {
		return "", 0, errors.New("not a regular file")
	}
	if !want {
		return "", info.Size(), nil
	}
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
