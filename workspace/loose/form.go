package loose

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/workspace/home"
)

// Form is the kind of file or folder that an argument names.
type Form int

const (
	FormReference   Form = iota // nothing, an OCI layout or a target's folder: the argument is a reference
	FormGraph                   // build.graph.yaml
	FormGGUF                    // weights with all that describes them
	FormCheckpoint              // safetensors of mm train
	FormModule                  // module.yaml or the folder that holds it
	FormFunction                // an ONNX file, one for an NPU, or the module of an encoder, projector or decoder
	FormTransformer             // folder of Hugging Face transformers
)

// configFile identifies a folder of Hugging Face transformers.
const configFile = "config.json"

// FormOf returns the form of path. It reads only the first bytes of a file or,
// for YAML, at most the size limit of a document. If path cannot be run, the
// error describes its content.
func FormOf(path string) (Form, error) {
	info, err := os.Stat(path)
	if err != nil {
		return FormReference, nil // it may be a reference; the lookup reports a missing one
	}
	if info.IsDir() {
		return formOfFolder(path)
	}
	head, err := fsx.ReadHead(path, fsx.SniffLen)
	if err != nil {
		return FormReference, unrunnable(path, reasonOf(err), "")
	}
	if qnnfile.Compiled(head) {
		return FormFunction, nil
	}
	kind := fsx.Sniff(head)
	if kind != fsx.GGUF && strings.EqualFold(filepath.Ext(path), ".gguf") {
		return FormReference, unrunnable(path, fmt.Sprintf("it is called a GGUF file, and is %s: it begins with %q", kind, head[:min(4, len(head))]), "fetch or export it again")
	}
	switch kind {
	case fsx.GGUF:
		return FormGGUF, nil
	case fsx.Safetensors:
		return FormCheckpoint, nil
	case fsx.ONNX:
		return FormFunction, nil
	case fsx.Text:
		return formOfText(path)
	case fsx.Unknown:
		if strings.EqualFold(filepath.Ext(path), ".onnx") { // its fields may be in any order
			return FormFunction, nil
		}
		return FormReference, unrunnable(path, "it is neither GGUF nor YAML: its first bytes are "+fmt.Sprintf("%q", head[:min(4, len(head))]), "")
	default:
		return FormReference, unrunnable(path, "it is "+string(kind), ways[kind])
	}
}

// ways lead on from files that cannot be run.
var ways = map[fsx.FileKind]string{
	fsx.Pointer: "git lfs pull fetches the file",
	fsx.Zip:     "unpack the archive; weights of PyTorch are converted to safetensors by their publisher",
	fsx.Gzip:    "unpack the archive",
	fsx.HTML:    "download the file itself",
}

// formOfText distinguishes mm's documents.
func formOfText(path string) (Form, error) {
	data, list := schemas.ReadFile(path, diag.Unreadable)
	if list.Failed() {
		return FormReference, list.Err()
	}
	if filepath.Base(path) == configFile {
		return FormReference, unrunnable(path, "it describes a model, whose weights lie beside it", "name the folder: mm run "+filepath.Dir(path))
	}
	doc, list := schemas.Parse(path, data)
	if doc == nil || list.Failed() {
		if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
			return FormReference, unrunnable(path, "it is text, and no graph", "")
		}
		return FormGraph, nil // its parser reports every fault
	}
	switch kind := kindOf(doc); kind {
	case schemas.Graph:
		return FormGraph, nil
	case schemas.Module:
		return formOfModule(doc), nil
	case "":
		return FormReference, unrunnable(path, "nothing in it says what it is", "a graph has a core or a modalities key, a module a type key")
	default:
		return FormReference, unrunnable(path, "it is "+documents[kind], documentWays[kind])
	}
}

// formOfModule distinguishes functions of tensors from text models.
func formOfModule(doc *schemas.Document) Form {
	var head struct {
		Type any `json:"type"`
	}
	if doc != nil && doc.Decode(&head) == nil {
		switch head.Type {
		case string(abi.Encoder), string(abi.Projector), string(abi.Decoder):
			return FormFunction
		}
	}
	return FormModule
}

// kindOf returns the kind of a document by its name and keys or, if they are
// ambiguous, the one kind whose schema accepts it.
func kindOf(doc *schemas.Document) schemas.Kind {
	if kind, ok := doc.Detect(); ok {
		return kind
	}
	for _, kind := range []schemas.Kind{schemas.Train, schemas.Request, schemas.Trust, schemas.Config} {
		if list := doc.Validate(kind); !list.Failed() {
			return kind
		}
	}
	return ""
}

// documents are the kinds that do not run, and documentWays lead on from them.
var (
	documents = map[schemas.Kind]string{
		schemas.Lock: "the lock of a graph", schemas.Config: "the settings of a folder", schemas.Trust: "a trust file",
		schemas.Request: "a request", schemas.Train: "the configuration of a training", schemas.Stage: "the recipe of a training stage",
		schemas.Decoding:    "the recipe of a training stage",
		schemas.Preference:  "the recipe of a training stage",
		schemas.Improvement: "the recipe of a training stage",
		schemas.Study:       "a study of recipes",
		schemas.Jobs:        "a batch of jobs",
	}
	documentWays = map[schemas.Kind]string{
		schemas.Lock: "name the graph beside it", schemas.Request: "mm run MODEL --request FILE asks it", schemas.Train: "mm train FILE", schemas.Stage: "mm train FILE",
		schemas.Decoding:    "mm train FILE",
		schemas.Preference:  "mm train FILE",
		schemas.Improvement: "mm train FILE",
		schemas.Study:       "mm experiment run FILE --out DIR",
		schemas.Jobs:        "mm jobs run FILE --out DIR",
	}
)

func formOfFolder(path string) (Form, error) {
	has := func(name string) bool { return home.Exists(filepath.Join(path, name)) }
	abs, err := filepath.Abs(path)
	switch {
	case err != nil:
		return FormReference, err
	case IsLayout(path), IsLayout(filepath.Dir(abs)), has(builds.AssemblyFile):
		return FormReference, nil
	case has(modules.FileName):
		data, list := schemas.ReadFile(filepath.Join(path, modules.FileName), diag.Unreadable)
		if list.Failed() {
			return FormModule, nil // its parser reports every fault
		}
		doc, _ := schemas.Parse(modules.FileName, data)
		return formOfModule(doc), nil
	case has(configFile), convert.IsOrt(path):
		return FormTransformer, nil
	}
	return FormReference, folderFault(path)
}

// folderFault returns the error for an unusable folder.
func folderFault(path string) error {
	names := func(pattern string) []string {
		found, _ := filepath.Glob(filepath.Join(escapeGlob(path), pattern))
		for i := range found {
			found[i] = home.ShortPath(found[i])
		}
		return found
	}
	detail := "it is a folder, but no OCI layout, no target of one, no module (" + modules.FileName + ") and no model of Hugging Face (" + configFile + ")"
	for _, at := range []struct{ pattern, what string }{
		{"*.gguf", "name the model in it: "},
		{"*.graph.yaml", "name the graph in it: "},
		{"*/" + modules.FileName, "name a module in it: "},
		{"*/oci-layout", "name a layout in it: "},
		{"*/" + configFile, "name a model in it: "},
		{"*.safetensors", "weights need their " + configFile + " beside them; name a checkpoint of mm train itself: "},
	} {
		if found := names(at.pattern); len(found) > 0 {
			return unrunnable(path, detail, at.what+some(found))
		}
	}
	return unrunnable(path, detail, "mm assemble --out makes layouts; mm module import makes modules")
}

// escapeGlob escapes a path for use in a pattern.
func escapeGlob(path string) string {
	if os.PathSeparator == '\\' {
		return path // backslash is a separator here, so there is no escape
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// some names the first few.
func some(names []string) string {
	slices.Sort(names)
	if len(names) > 4 {
		return strings.Join(names[:4], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// unrunnable is a fault of a file or folder that was to be run.
func unrunnable(path, detail, hint string) error {
	var list diag.List
	list.Add(diag.NotRunnable, diag.Pos{File: path}, detail, hint)
	return list.Err()
}

// reasonOf returns the message of an error without its path, in one line.
func reasonOf(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ") // of joined errors
}

// IsLayout reports whether dir is an OCI image layout.
func IsLayout(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, ocispec.ImageLayoutFile))
	return err == nil && info.Mode().IsRegular()
}
