package train

import (
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
)

// ReadDocument reads a training document of one of the kinds; unknown keys are faults.
func ReadDocument(file string) (*schemas.Document, schemas.Kind, error) {
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if err := list.Err(); err != nil {
		return nil, "", err
	}
	doc, list := schemas.Parse(file, data)
	if doc == nil {
		return nil, "", list.Err()
	}
	kind, _ := doc.Detect()
	switch kind {
	case schemas.Stage, schemas.Decoding, schemas.Preference, schemas.Improvement:
	default:
		kind = schemas.Train
	}
	list = append(list, doc.Validate(kind)...)
	list.Sort()
	return doc, kind, list.Err()
}

// Decode decodes and checks a recipe.
func Decode[R interface{ Validate() error }](doc *schemas.Document, r *R) error {
	if err := doc.Decode(r); err != nil {
		return err
	}
	return Placed(doc, (*r).Validate())
}

// DecodeConfig decodes the configuration of a language model.
func DecodeConfig(doc *schemas.Document) (cfg Config, err error) { return cfg, Decode(doc, &cfg) }

// Placed adds positions in the document to the faults in err.
func Placed(doc *schemas.Document, err error) error { return PlacedAs(diag.NotAllowed, doc, err) }

// PlacedAs is Placed with another code.
func PlacedAs(code diag.Code, doc *schemas.Document, err error) error {
	var list diag.List
	for _, f := range Faults(err) {
		list.Add(code, doc.Pos(f.Path), f.Error(), "")
	}
	if len(list) > 0 {
		return list.Err()
	}
	return err
}

// Until returns the stop after steps or a time instead, if they are not 0.
func (s Stop) Until(steps int, limit time.Duration) Stop {
	if steps > 0 || limit > 0 {
		s.Steps, s.Tokens, s.Seconds = steps, 0, limit.Seconds()
	}
	return s
}
