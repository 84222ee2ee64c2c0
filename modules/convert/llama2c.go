package convert

import (
	"context"
	"fmt"
	"io"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
)

// maxVocabulary is the size limit of tokenizer.bin, in bytes.
const maxVocabulary = 64 << 20

// Llama2C converts a llama2.c checkpoint with the tokenizer.bin at vocabulary to a
// module and returns its folder. The model has no name: opt.Name is required.
func Llama2C(ctx context.Context, path, vocabulary string, opt Options) (string, error) {
	if !abi.ValidName(opt.Name) {
		return "", fmt.Errorf("invalid module name %q: set a name", opt.Name)
	}
	in, err := fsx.OpenRegular(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return "", err
	}
	model, err := Read(in, info.Size())
	if err != nil {
		return "", err
	}
	data, err := readVocabulary(vocabulary)
	if err != nil {
		return "", err
	}
	tok, err := tokenizer.FromLlama2C(data, model.Vocab)
	if err != nil {
		return "", err
	}
	dir := opt.Dir
	if dir == "" {
		dir = opt.Name
	}
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		weights := opt.Name + ".gguf"
		file, err := WriteFile(d, weights, func(w io.Writer) error {
			_, err := gguf.Write(fsx.Writer{Context: ctx, W: w}, append(model.Metadata(opt.Name), tok.KVs()...), model.Tensors())
			return err
		})
		if err != nil {
			return err
		}
		m := modules.Manifest{
			Name: opt.Name, Version: opt.Version, Type: abi.Core, Modality: abi.Text, ABI: abi.V1_0, License: opt.License,
			Description: "Imported from a llama2.c checkpoint.",
			Export:      map[abi.Format]modules.Export{abi.GGUF: {Path: weights}}, Quant: &modules.Quant{Supported: abi.Precisions()}, Files: []modules.File{file},
		}
		m.KVDTypes = []abi.DType{abi.FP32, abi.FP16, abi.Int8, abi.FP8}
		m.Tokens = &abi.TokenContract{VocabSize: model.Vocab, MaxSeq: model.Context, DModel: model.Dim, SpecialTokens: Specials(tok)}
		return WriteManifest(d, m)
	})
	return dir, err
}

func readVocabulary(path string) ([]byte, error) { return fsx.ReadFile(path, maxVocabulary) }
