package scene

import "slices"

// Motions lists the motions of videos.
func Motions() []string { return slices.Clone(motions) }

// Colours lists the names of colors.
func Colours() []string {
	names := make([]string, len(colours))
	for i, c := range colours {
		names[i] = c.name
	}
	return names
}

// Places lists the parts of an image in reading order.
func Places() []string { return places[:] }

// Caption returns the caption of the found shapes, like a scene's, or "" if
// there are none.
func (f Found) Caption() string {
	shapes := make([]Shape, len(f.Shapes))
	for i, s := range f.Shapes {
		shapes[i] = s.Shape
	}
	return caption(shapes)
}
