module octavo.dev/onenode/argocd

go 1.26.0

// As Argo CD 3.1.16 has them.
require (
	github.com/yuin/gopher-lua v1.1.1
	layeh.com/gopher-json v0.0.0-20190114024228-97fed8db8427
)
