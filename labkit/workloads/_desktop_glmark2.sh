# programs: glmark2
# glmark2 looks for models beside its own shaders.
mkdir -p data/models && mv reducer.obj data/models &&
ln -s /usr/share/glmark2/shaders /usr/share/glmark2/textures data &&
exec glmark2 --data-path data --size 600x600 -b build:model=reducer:duration=9999
