package schemas

import "mm-abi.org/mm/internal/diag"

// ReadTraining reads a training document of any kind; unknown keys are faults.
func ReadTraining(file string) (*Document, Kind, error) {
	data, list := ReadFile(file, diag.Unreadable)
	if err := list.Err(); err != nil {
		return nil, "", err
	}
	doc, list := Parse(file, data)
	if doc == nil {
		return nil, "", list.Err()
	}
	kind, _ := doc.Detect()
	switch kind {
	case Stage, Decoding, Preference, Improvement:
	default:
		kind = Train
	}
	list = append(list, doc.Validate(kind)...)
	list.Sort()
	return doc, kind, list.Err()
}
