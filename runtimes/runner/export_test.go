package runner

import "mm-abi.org/mm/skills/sandbox"

// Assets are those that skills may read of a request.
func Assets(r Request) ([]sandbox.Asset, error) {
	var held files
	defer held.close()
	return r.assets(&held)
}
