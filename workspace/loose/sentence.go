package loose

import (
	"context"
	"errors"
	"maps"
	"path/filepath"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/workspace/home"
)

// sentenceExt is the extension of a converted encoder of text: its module.
const sentenceExt = ".text"

// ownSentence makes a build of an encoder of text or an encoder-decoder, a folder of transformers or a GGUF
// file, converted now or before.
func (o *Opener) ownSentence(ctx context.Context, path string, convertTo func(ctx context.Context, path string, opt convert.Options) (string, error)) (*builds.Build, error) {
	usable := func(path string) bool { return home.Exists(filepath.Join(path, modules.FileName)) }
	dir, err := o.converted(ctx, path, sentenceExt, usable, func(ctx context.Context, from, to string) (string, error) {
		o.Say("%s is converted for the engines, once", from)
		converted, err := convertTo(ctx, from, convert.Options{Dir: to, Name: visionName, Version: "1.0.0"})
		if err != nil && ctx.Err() == nil {
			return "", weightsFault(from, err)
		}
		return converted, errors.Join(err, ctx.Err())
	})
	if err != nil {
		return nil, err
	}
	f, err := o.functionModule(ctx, dir)
	if err != nil {
		return nil, err
	}
	return f.Build(), nil
}

// jointExt is the extension of a converted model of texts and pictures: the folder that
// [convert.Joint] writes.
const jointExt = ".joint"

// ownJoint makes a build of a folder of CLIP or SigLIP, converted now or before.
func (o *Opener) ownJoint(ctx context.Context, path string) (*builds.Build, error) {
	usable := func(path string) bool { return home.Exists(filepath.Join(path, convert.GraphFile)) }
	project, err := o.converted(ctx, path, jointExt, usable, func(ctx context.Context, from, to string) (string, error) {
		o.Say("%s is converted for the engines, once", from)
		converted, err := convert.Joint(ctx, from, convert.Options{Dir: to, Name: visionName, Version: "1.0.0"})
		if err != nil && ctx.Err() == nil {
			return "", weightsFault(from, err)
		}
		return converted, errors.Join(err, ctx.Err())
	})
	if err != nil {
		return nil, err
	}
	var b *builds.Build
	for _, part := range []string{convert.TextPart, convert.ImagePart} {
		fn, err := o.functionModule(ctx, filepath.Join(project, "modules", visionName+part))
		if err != nil {
			return nil, err
		}
		if b == nil {
			b = fn.Build()
			continue
		}
		b.Manifests[fn.Part.Name] = fn.Manifest
		maps.Copy(b.Files.(*ownFiles).paths, fn.Files.(*ownFiles).paths)
		b.Assembly.Modalities = append(b.Assembly.Modalities, builds.ModalityPart{Modality: fn.Manifest.Modality, Encoder: fn.Part})
	}
	return b, nil
}

// readsText returns the build of a module folder of an encoder of text or of an
// encoder-decoder, nil for another module.
func (o *Opener) readsText(ctx context.Context, path string) (*builds.Build, error) {
	if m, _ := modules.Load(path); m == nil || m.Text == nil && m.Loop == nil {
		return nil, nil
	}
	f, err := o.functionModule(ctx, path)
	if err != nil {
		return nil, err
	}
	return f.Build(), nil
}

// IsLoop reports whether path is the folder of a module that is an encoder-decoder.
func IsLoop(path string) bool {
	if !home.IsFolder(path) {
		return false
	}
	m, _ := modules.Load(path)
	return m != nil && m.Loop != nil
}
