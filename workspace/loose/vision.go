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
	usable := func(path string) bool { return home.Exists(filepath.Join(path, convert.GraphFile)) }
	project, err := o.converted(ctx, dir, visionExt, usable, o.convertVision)
	if err != nil {
		return nil, err
	}
	b, err := o.ownModule(ctx, filepath.Join(project, "modules", visionName+"-core"))
	if err != nil {
		return nil, err
	}
	return b, o.see(ctx, b, project)
}

// ownGGUF makes a build of a GGUF file, with the mmproj file of its vision tower if it
// is named or in the same folder.
func (o *Opener) ownGGUF(ctx context.Context, path string) (*builds.Build, error) {
	b, err := o.ownWeights(path, path)
	if err != nil {
		return nil, err
	}
	mmproj := o.MMProj
	if mmproj == "" {
		if mmproj = neighbor(path); mmproj == "" {
			return b, nil
		}
		o.Say("%s: pictures are read with %s, in the same folder", path, filepath.Base(mmproj))
	}
	usable := func(path string) bool { return home.Exists(filepath.Join(path, "modules")) }
	project, err := o.converted(ctx, mmproj, visionExt, usable, func(ctx context.Context, _, to string) (string, error) {
		o.Say("%s is converted for the engine, once", mmproj)
		return convert.VisionParts(ctx, path, mmproj, convert.Options{Dir: to, Name: visionName, Version: "1.0.0"})
	})
	if err == nil {
		err = o.see(ctx, b, project)
	}
	if err != nil && ctx.Err() == nil {
		if o.MMProj == "" { // perhaps of another model
			o.Say("%s is not used: %v", filepath.Base(mmproj), err)
			return b, nil
		}
		return nil, unrunnable(mmproj, reasonOf(err), "name the mmproj file of "+filepath.Base(path))
	}
	return b, err
}

// neighbor returns the mmproj file in the folder of a model, or "" if there is not
// exactly one.
func neighbor(path string) string {
	found, err := filepath.Glob(filepath.Join(escapeGlob(filepath.Dir(path)), "*mmproj*.gguf"))
	if err != nil || len(found) != 1 || found[0] == path {
		return ""
	}
	return found[0]
}

// see adds the encoder and the projector of a converted model to a build of its core.
func (o *Opener) see(ctx context.Context, b *builds.Build, project string) error {
	module := func(part string) string { return filepath.Join(project, "modules", visionName+"-"+part) }
	enc, err := o.functionModule(ctx, module("enc"))
	if err != nil {
		return err
	}
	proj, err := o.functionModule(ctx, module("proj"))
	if err != nil {
		return err
	}
	own := b.Files.(*ownFiles)
	for _, fn := range []*Function{enc, proj} {
		b.Manifests[fn.Part.Name] = fn.Manifest
		maps.Copy(own.paths, fn.Files.(*ownFiles).paths)
	}
	b.Assembly.ABI = abi.V1_2
	b.Assembly.Modalities = []builds.ModalityPart{{Modality: enc.Manifest.Modality, Encoder: enc.Part, Projector: proj.Part, TCap: proj.Manifest.TCap()}}
	return nil
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
