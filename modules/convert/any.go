package convert

import (
	"context"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
)

// Converter writes a model as a module, or as modules with a graph, and returns the folder.
type Converter struct {
	Convert func(ctx context.Context, opt Options) (dir string, err error)
	// Next is what runs the graph in the folder, in a format; "": the folder is a module.
	Next string
}

// of returns the converter of a module.
func of(path string, convert func(context.Context, string, Options) (string, error)) Converter {
	return Converter{Convert: func(ctx context.Context, opt Options) (string, error) { return convert(ctx, path, opt) }}
}

// graphOf returns the converter of a graph.
func graphOf(path, next string, convert func(context.Context, string, Options) (string, error)) Converter {
	c := of(path, convert)
	c.Next = next
	return c
}

// What runs an imported model of several modules.
const (
	nextVision = "next: mm run %s --image FILE \"…\""
	nextJoint  = "next: mm embed %s --image FILE \"…\""
)

// OfGGUF returns the converter of a GGUF file, with its vision tower if mmproj is not empty.
func OfGGUF(path, mmproj string) Converter {
	switch {
	case mmproj != "":
		return graphOf(path, nextVision, func(ctx context.Context, path string, opt Options) (string, error) {
			return VisionPair(ctx, path, mmproj, opt)
		})
	case IsSentenceGGUF(path):
		return of(path, SentenceGGUF)
	}
	return of(path, GGUF)
}

// OfHuggingFace returns the converter of a folder of transformers, which is not one of PEFT.
func OfHuggingFace(folder string) Converter {
	is := func(check func(string) (bool, error)) bool {
		ok, err := check(folder)
		return err == nil && ok
	}
	switch {
	case folder != "" && is(IsJoint):
		return graphOf(folder, nextJoint, Joint)
	case folder != "" && is(IsVision):
		return graphOf(folder, nextVision, Vision)
	case is(IsSentence):
		return of(folder, Sentence)
	case is(IsEncDec):
		return of(folder, EncDec)
	}
	return of(folder, HuggingFace)
}

// OfPEFT returns the converter of a folder of PEFT to an adapter of a core, a file or a
// folder, and names the adapter if opt does not. base is the core's module, if not empty.
func OfPEFT(folder, core, base string, opt *Options) (Converter, error) {
	adapted := Adapted{Core: core}
	if core == "" {
		return Converter{}, diag.Usagef("a PEFT adapter requires --core: a GGUF file or the folder of a core's module")
	}
	if base != "" {
		var err error
		if adapted.Base, err = abi.ParseModuleRef(base); err != nil {
			return Converter{}, diag.Usagef("--base: %w", err)
		}
	}
	if opt.Name == "" {
		opt.Name = strings.ToLower(filepath.Base(filepath.Clean(folder)))
	}
	return of(folder, func(ctx context.Context, path string, opt Options) (string, error) {
		return PEFT(ctx, path, adapted, opt)
	}), nil
}
