package loose

import (
	"context"
	"errors"
	"maps"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/workspace/home"
)

// visionExt is the extension of a converted vision language model: the folder that
// [convert.Vision] writes.
const visionExt = ".vision"

// visionName is the name of the modules of a converted folder, which is the same
// for every folder of the same content.
const visionName = "model"

// ownVision makes a build of a folder of a vision language model, converted now or
// before.
func (o *Opener) ownVision(ctx context.Context, dir string) (*builds.Build, error) {
	whole := func(path string) bool { return home.Exists(filepath.Join(path, convert.GraphFile)) }
	project, err := o.converted(ctx, dir, visionExt, whole, o.convertVision)
	if err != nil {
		return nil, err
	}
	module := func(part string) string { return filepath.Join(project, "modules", visionName+"-"+part) }
	b, err := o.ownModule(ctx, module("core"))
	if err != nil {
		return nil, err
	}
	enc, err := o.functionModule(ctx, module("enc"))
	if err != nil {
		return nil, err
	}
	proj, err := o.functionModule(ctx, module("proj"))
	if err != nil {
		return nil, err
	}
	own := b.Files.(*ownFiles)
	for _, fn := range []*Function{enc, proj} {
		b.Manifests[fn.Part.Name] = fn.Manifest
		maps.Copy(own.paths, fn.Files.(*ownFiles).paths)
	}
	b.Assembly.ABI = abi.V1_2
	b.Assembly.Modalities = []builds.ModalityPart{{
		Modality: abi.Image, Encoder: enc.Part, Projector: proj.Part, TCap: proj.Manifest.TCap(),
	}}
	return b, nil
}

// convertVision writes the modules of a vision language model to path.
func (o *Opener) convertVision(ctx context.Context, dir, path string) (string, error) {
	o.Say("%s is converted for the engines, once", dir)
	path, err := convert.Vision(ctx, dir, convert.Options{
		Dir: path, Name: visionName, Version: "1.0.0", Ignore: o.Ignore, Note: func(text string) { o.Say("%s", text) },
	})
	if err != nil && ctx.Err() == nil {
		return "", weightsFault(dir, err)
	}
	return path, errors.Join(err, ctx.Err())
}
