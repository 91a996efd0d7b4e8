"""What MuJoCo draws on a body."""

from typing import Any

from fgmbs.mechanisms.tree.description import Shape
from fgmbs.mechanisms.tree.poses import compose, from_quaternion, inverse, vector_of


def shapes_of(model: Any, body: int) -> tuple[Shape, ...]:
    """The boxes, cylinders, capsules, spheres and meshes on a body of MuJoCo's model."""
    import mujoco

    kinds = mujoco.mjtGeom
    shapes: list[Shape] = []
    first, number = int(model.body_geomadr[body]), int(model.body_geomnum[body])
    for geom in range(first, first + number):
        pose = from_quaternion(vector_of(model.geom_pos[geom]), tuple(model.geom_quat[geom]))
        x, y, z = vector_of(model.geom_size[geom])
        color = "#" + "".join(f"{round(255 * float(level)):02x}" for level in model.geom_rgba[geom][:3])
        kind = kinds(int(model.geom_type[geom]))
        if kind == kinds.mjGEOM_BOX:
            shapes.append(Shape("box", pose, (2 * x, 2 * y, 2 * z), color=color))
        elif kind == kinds.mjGEOM_SPHERE:
            shapes.append(Shape("sphere", pose, (x,), color=color))
        elif kind == kinds.mjGEOM_CYLINDER:
            shapes.append(Shape("cylinder", pose, (x, 2 * y), color=color))
        elif kind == kinds.mjGEOM_CAPSULE:
            shapes.append(Shape("capsule", pose, (x, 2 * y), color=color))
        elif kind == kinds.mjGEOM_MESH:
            mesh = int(model.geom_dataid[geom])
            file = (
                model.paths[model.mesh_pathadr[mesh] :].split(b"\0")[0].decode()
                if model.mesh_pathadr[mesh] >= 0
                else ""
            )
            centered = from_quaternion(vector_of(model.mesh_pos[mesh]), tuple(model.mesh_quat[mesh]))
            pose = compose(pose, inverse(centered))
            shapes.append(Shape("mesh", pose, vector_of(model.mesh_scale[mesh]), file, color))
    return tuple(shapes)
