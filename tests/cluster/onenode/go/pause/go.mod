module octavo.dev/onenode/pause

go 1.26.0
