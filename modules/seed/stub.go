package seed

import "mm/modules"

func encoder(*modules.Manifest, Options) []file   { return nil }
func projector(*modules.Manifest, Options) []file { return nil }
func decoder(*modules.Manifest, Options) []file   { return nil }
func adapter(*modules.Manifest, Options) []file   { return nil }
