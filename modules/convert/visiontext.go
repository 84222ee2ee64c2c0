package convert

import (
	"fmt"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules"
)

// sequence returns the texts around the vectors, as the processors of transformers
// write them.
func (v *vision) sequence() (*modules.Sequence, error) {
	if v.tower.Sound() {
		return v.soundSequence()
	}
	image, err := v.piece("image_token_id", v.usual(), v.ids.Image, v.ids.ImageIndex)
	if err != nil {
		return nil, err
	}
	switch v.tower.Family {
	case "paligemma":
		return &modules.Sequence{Marker: image, Attention: "prefix"}, nil
	case "gemma3":
		begin, err := v.piece("boi_token_index", "<start_of_image>", v.ids.Begin)
		if err != nil {
			return nil, err
		}
		end, err := v.piece("eoi_token_index", "<end_of_image>", v.ids.End)
		return &modules.Sequence{Marker: begin, Open: "\n\n" + begin, Close: end + "\n\n", Attention: "mutual"}, err
	case "idefics3", "smolvlm":
		const fake, global = "<fake_token_around_image>", "<global-img>"
		return &modules.Sequence{
			Marker: image, Tile: fake + "<row_{row}_col_{col}>", RowEnd: "\n", Overview: "\n" + fake + global, Alone: fake + global, Close: fake,
		}, v.require(fake, global)
	case "internvl":
		return &modules.Sequence{Marker: image, Open: "<img>", Close: "</img>"}, v.require("<img>", "</img>")
	}
	shrink, mosaic := v.tower.Mosaic()
	switch {
	case mosaic:
		return &modules.Sequence{Marker: image, Runs: "mosaic", Shrink: shrink}, nil
	case v.tower.Grid():
		return &modules.Sequence{Marker: image, Positions: "grid", Deep: v.tower.Deep()}, nil
	case v.tower.ByRow():
		const end, last = "[IMG_BREAK]", "[IMG_END]"
		return &modules.Sequence{Marker: image, Runs: "rows", RowEnd: end, Close: last}, v.require(end, last)
	}
	return &modules.Sequence{Marker: image}, nil
}

// modality returns the modality of the encoder.
func (v *vision) modality() abi.Modality {
	if v.tower.Sound() {
		return abi.Audio
	}
	return abi.Image
}

// soundSequence returns the texts around the vectors of a sound.
func (v *vision) soundSequence() (*modules.Sequence, error) {
	usual, begin := "<|AUDIO|>", ""
	if v.tower.Family == "voxtral" {
		usual, begin = "[AUDIO]", "[BEGIN_AUDIO]"
	}
	marker, err := v.piece("audio_token_id", usual, v.ids.Audio, v.ids.AudioIndex)
	if err != nil || begin == "" || strings.Contains(v.vocab.Rules().Template, begin) {
		return &modules.Sequence{Marker: marker}, err
	}
	return &modules.Sequence{Marker: marker, Open: begin}, v.require(begin)
}

// usual returns the marker of a family, for files that do not name it.
func (v *vision) usual() string {
	switch {
	case v.tower.Grid() || v.tower.Family == "lighton_ocr":
		return "<|image_pad|>"
	case v.tower.ByRow():
		return "[IMG]"
	case v.tower.Family == "gemma3":
		return "<start_of_image>"
	case v.tower.Family == "internvl":
		return "<IMG_CONTEXT>"
	}
	return "<image>"
}

// piece returns the text of the first given token, or the usual one. A template may
// write a marker that is not a token.
func (v *vision) piece(key, usual string, ids ...*int32) (string, error) {
	stated := false
	for _, id := range ids {
		if id != nil && *id >= 0 && int(*id) < v.vocab.Size() {
			return v.vocab.Piece(*id), nil
		}
		stated = stated || id != nil
	}
	if stated {
		return "", fmt.Errorf("config.json: %s is not a token of the vocabulary", key)
	}
	return usual, nil
}

// require reports tokens that the vocabulary lacks.
func (v *vision) require(tokens ...string) error {
	for _, t := range tokens {
		if v.vocab.ID(t) == tokenizer.None {
			return fmt.Errorf("missing token %s in the vocabulary", t)
		}
	}
	return nil
}
