package builds

const MaxAssembly = maxAssembly

var SourceOf = sourceOf
