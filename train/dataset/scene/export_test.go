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
