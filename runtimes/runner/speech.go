package runner

import (
	"context"
	"fmt"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/speech"
)

// voiceOf returns the name of the first decoder with a speech block, or "".
func voiceOf(b *builds.Build) string {
	for _, d := range b.Assembly.Decoders {
		if m := b.Manifests[d.Name]; d.Modality == abi.Audio && m != nil && m.Speech != nil {
			return d.Name
		}
	}
	return ""
}

// Speaker opens the build's decoder with a speech block; see [speech.Speaker].
func (r *Runner) Speaker(ctx context.Context, p speech.Phonemizer) (*speech.Speaker, error) {
	name := voiceOf(r.build)
	f := r.parts.Function(name)
	if f == nil {
		var list diag.List
		list.Add(diag.NoSpeech, diag.Pos{}, fmt.Sprintf("no decoder of %s has a speech block", r.build.Assembly.Name), "mm module import onnx makes a module of a voice (docs/MODELS.md, Speech)")
		return nil, list.Err()
	}
	return speech.Open(ctx, f, p)
}
